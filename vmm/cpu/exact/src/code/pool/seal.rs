//! Authentication of a pool that was saved, before any of it is decoded.
//!
//! A saved pool is code that this process will execute, so only bytes are accepted that the same user's key
//! has sealed, for the same build on an equal host. The seal is HMAC-SHA-256 (RFC 2104) of everything after
//! it. `CodePool` seals and opens; the caller keeps the key and the file.
//!
//! ```text
//! "BELLCODE"  seal (32)  identity (16)  the pool
//! ```

use hmac::{Hmac, Mac};
use sha2::Sha256;
use twox_hash::XxHash3_128;

use super::Pool;
use super::saved::{SavedCodeError, SavedPool};
use crate::processor::host::host_features;
use belljar_translate::host::shared::Character;

const MAGIC: &[u8; 8] = b"BELLCODE";
/// Bytes of a seal.
const SEAL: usize = 32;
/// Bytes of an identity.
const IDENTITY: usize = 16;
/// Incremented with every change of the saved form.
const VERSION: u32 = 1;
/// A user's own key for saved code, which nobody else may know.
#[derive(Clone)]
pub struct CodeKey([u8; 32]);

impl CodeKey {
    /// The key with these bytes, which must be random.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.0);
        let Ok(mac) = mac else {
            unreachable!("HMAC takes keys of any length");
        };
        mac.chain_update(bytes)
    }
}

/// A saved pool that was sealed with the user's key.
pub struct SealedCode {
    identity: [u8; IDENTITY],
    pool: SavedPool,
}

impl SealedCode {
    /// Decodes `bytes` if their seal was made with `key`.
    ///
    /// # Errors
    /// [`SavedCodeError::Seal`] if they differ in any bit from what was sealed, or that they are no pool.
    pub fn open(bytes: Vec<u8>, key: &CodeKey) -> Result<Self, SavedCodeError> {
        let sealed = bytes.strip_prefix(MAGIC);
        let sealed = sealed.and_then(|rest| rest.split_at_checked(SEAL));
        let (seal, content) = sealed.ok_or(SavedCodeError::Seal)?;
        let verified = key.mac(content).verify_slice(seal);
        verified.map_err(|_| SavedCodeError::Seal)?;
        let (&identity, _) = content
            .split_first_chunk()
            .ok_or(SavedCodeError::Identity)?;
        let pool = SavedPool::decode(bytes, MAGIC.len() + SEAL + IDENTITY)?;
        Ok(Self { identity, pool })
    }

    /// The pool, if it was saved for `identity`.
    ///
    /// # Errors
    /// [`SavedCodeError::Identity`].
    pub(super) fn pool(self, identity: u128) -> Result<SavedPool, SavedCodeError> {
        let fits = self.identity == identity.to_le_bytes();
        fits.then_some(self.pool).ok_or(SavedCodeError::Identity)
    }
}

/// Seals `pool` for `identity`. `None` if it cannot be saved.
pub(super) fn seal(pool: &Pool, identity: u128, key: &CodeKey) -> Option<Vec<u8>> {
    let mut bytes = MAGIC.to_vec();
    bytes.resize(MAGIC.len() + SEAL, 0);
    bytes.extend_from_slice(&identity.to_le_bytes());
    SavedPool::append(pool, &mut bytes)?;
    let (head, content) = bytes.split_at_mut(MAGIC.len() + SEAL);
    let seal = key.mac(content).finalize().into_bytes();
    head[MAGIC.len()..].copy_from_slice(&seal);
    Some(bytes)
}

/// A number for everything besides the guest's bytes on which the code of a pool depends: the build of this
/// program, the host's processor, the code's character and the size of its memory.
pub(super) fn identity(build: &str, character: &Character, bytes: usize) -> u128 {
    let host = host_features();
    let text = format!("{VERSION}\0{build}\0{host}\0{bytes}\0{character:?}");
    XxHash3_128::oneshot(text.as_bytes())
}
