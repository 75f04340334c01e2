//! All signatures of a file so far, by number.
//!
//! A chunk contains its new signatures. A writer looks up a call's signature first at the successor of the previous
//! call's signature, then by its bytes. A chunk with the flag set empties the dictionary on both sides, when it has
//! become too large. Used by the writer and the readers.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{
    Details, EarlierEvent, Event, NewSites, Site, SiteNumbers, Sites, TYPED_VERSION,
    UNEXPLAINED_VERSION, UNGROUPED_VERSION, UngroupedDetails, UnnumberedDetails, UntypedDetails,
    VERSION, codec,
};
use bincode::{Decode, Encode};

use crate::calls::signature::{EarlierNumber, Signature};

/// Most signatures kept before the dictionary is emptied.
const MOST_SIGNATURES: usize = 1 << 17;

/// Most bytes of all signatures before the dictionary is emptied.
const MOST_BYTES: usize = 8 << 20;

/// Most bytes of a chunk's new signatures.
const MOST_NEW: usize = 16 << 20;

/// zstd's level; it is high because signatures are few.
const LEVEL: i32 = 12;

/// Signatures by number, and numbers by signature.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    /// The version of the file.
    version: u16,
    /// True if calls have sites.
    sited: bool,
    /// A writer's and a reader's sites.
    numbered: SiteNumbers,
    sites: Sites,
    signatures: Vec<Signature>,
    numbers: BTreeMap<Vec<u8>, u32>,
    /// The latest successor of each signature.
    next: Vec<u32>,
    /// The number of signatures in the file.
    stored: usize,
    bytes: usize,
    /// True if it was emptied since the last chunk.
    emptied: bool,
}

impl Dictionary {
    pub(crate) fn signatures(&self) -> &[Signature] {
        &self.signatures
    }

    /// Returns the number of signatures in the file.
    pub(crate) fn stored(&self) -> usize {
        self.stored
    }

    /// Creates an empty one, for a file of this version; with sites if `sited`.
    pub(crate) fn new(version: u16, sited: bool) -> Self {
        Self {
            version,
            sited,
            ..Self::default()
        }
    }

    /// Returns a writer's number for a site.
    pub(crate) fn site_number(&mut self, site: &Site) -> u32 {
        match self.sited {
            true => self.numbered.number(site),
            false => 0,
        }
    }

    /// Returns a reader's site with this number; reading a signature checks that its site exists.
    pub(crate) fn site(&self, number: u32) -> Site {
        self.sites.get(number).unwrap_or_default()
    }

    /// Returns the bytes of all signatures and sites.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.numbered.bytes()
    }

    /// Returns the number of a signature that follows the call with signature `last`. Also returns the signature's
    /// `slots`, so that their memory can be reused.
    pub(crate) fn number(&mut self, last: u32, signature: Signature) -> (u32, Vec<u8>) {
        let guess = self.next.get(last as usize).copied().unwrap_or(0);
        if self.signatures.get(guess as usize) == Some(&signature) {
            return (guess, signature.slots);
        }
        let bytes = self.encoded(&signature);
        let number = self.signatures.len() as u32;
        let number = *self.numbers.entry(bytes).or_insert_with_key(|bytes| {
            self.bytes += bytes.len();
            number
        });
        if number as usize == self.signatures.len() {
            self.signatures.push(signature);
            self.next.push(number);
        }
        if let Some(next) = self.next.get_mut(last as usize) {
            *next = number;
        }
        (number, Vec::new())
    }

    /// Renumbers the new signatures in this order, which must contain all of them. Returns the new number of each
    /// signature; `None` if there is no new one.
    pub(crate) fn reorder(&mut self, order: &[u32]) -> Option<Vec<u32>> {
        if self.signatures.len() == self.stored {
            return None;
        }
        let mut renumbered: Vec<u32> = (0..self.signatures.len() as u32).collect();
        let mut signatures = Vec::with_capacity(self.signatures.len() - self.stored);
        for number in order.iter().filter(|it| **it as usize >= self.stored) {
            renumbered[*number as usize] = (self.stored + signatures.len()) as u32;
            signatures.push(self.signatures[*number as usize].clone());
        }
        self.signatures.splice(self.stored.., signatures);
        for number in self.numbers.values_mut() {
            *number = renumbered[*number as usize];
        }
        let mut next = vec![0; self.next.len()];
        for (number, after) in self.next.iter().enumerate() {
            next[renumbered[number] as usize] = renumbered[*after as usize];
        }
        self.next = next;
        Some(renumbered)
    }

    /// Returns the section with the new entries.
    pub(crate) fn take_new(&mut self) -> Result<Vec<u8>, String> {
        let mut raw = vec![u8::from(std::mem::take(&mut self.emptied))];
        let new = self.numbered.take_new();
        codec::encode(&new, &mut raw).map_err(|error| error.to_string())?;
        for signature in &self.signatures[self.stored..] {
            raw.extend(self.encoded(signature));
        }
        self.stored = self.signatures.len();
        if raw.len() > MOST_NEW {
            return Err(format!("signatures of {} bytes are too many", raw.len()));
        }
        let mut section = (raw.len() as u32).to_le_bytes().to_vec();
        let packed = zstd::bulk::compress(&raw, LEVEL).map_err(|error| error.to_string())?;
        section.extend(packed);
        Ok(section)
    }

    /// Empties it for the following chunks if it has become too large.
    pub(crate) fn keep_small(&mut self) -> bool {
        let large = self.signatures.len() > MOST_SIGNATURES || self.bytes() > MOST_BYTES;
        if large {
            *self = Self {
                emptied: true,
                version: self.version,
                sited: self.sited,
                ..Self::default()
            };
        }
        large
    }

    /// Adds a section's entries. Returns the number of signatures before it.
    pub(crate) fn add(&mut self, section: &[u8]) -> Result<usize, String> {
        let head = section.first_chunk().ok_or("a dictionary is too short")?;
        let length = u32::from_le_bytes(*head) as usize;
        if length > MOST_NEW {
            return Err("a dictionary's length is impossible".to_owned());
        }
        let raw = zstd::bulk::decompress(&section[4..], length)
            .map_err(|error| format!("a dictionary cannot be decompressed: {error}"))?;
        let (emptied, mut raw) = raw.split_first().ok_or("a dictionary is empty")?;
        if *emptied != 0 {
            self.signatures.clear();
            self.sites = Sites::default();
            self.bytes = 0;
        }
        self.bytes += raw.len();
        let known = self.signatures.len();
        raw = self.add_sites(raw)?;
        while !raw.is_empty() {
            let (signature, used) = self.signature(raw)?;
            self.signatures.push(signature);
            raw = &raw[used..];
        }
        self.stored = self.signatures.len();
        let most = MOST_SIGNATURES + 2 * crate::structure::CHUNK_CALLS;
        if self.stored > most || self.bytes > MOST_BYTES + MOST_NEW {
            return Err("a dictionary has more signatures than there can be".to_owned());
        }
        Ok(known)
    }

    /// Adds the sites at the start of a section, and returns the rest.
    fn add_sites<'a>(&mut self, raw: &'a [u8]) -> Result<&'a [u8], String> {
        let (new, used) =
            codec::decode_first::<NewSites>(raw).map_err(|error| format!("sites: {error}"))?;
        let sense = self.sites.add(&new);
        sense.ok_or("a table of sites makes no sense")?;
        Ok(&raw[used..])
    }

    /// Decodes the signature at the start of `raw`, and returns its length.
    fn signature(&self, raw: &[u8]) -> Result<(Signature, usize), String> {
        let (signature, used) = match self.version {
            ..=UNGROUPED_VERSION => earlier::<UngroupedDetails>(raw)?,
            UNEXPLAINED_VERSION => earlier::<UnnumberedDetails>(raw)?,
            TYPED_VERSION => codec::decode_first::<Signature>(raw).map_err(unreadable)?,
            _ => untyped(raw)?,
        };
        match signature.site as usize <= self.sites.len() {
            true => Ok((signature, used)),
            false => Err("a signature's site is not there".to_owned()),
        }
    }

    /// Encodes a signature in the format of the file's version, one of those that are written.
    fn encoded(&self, signature: &Signature) -> Vec<u8> {
        encoded(signature, self.version == TYPED_VERSION)
    }

    /// Returns its state for [`load`](Self::load).
    pub(crate) fn save(&self) -> SavedDictionary {
        let (sites, told) = self.numbered.all();
        SavedDictionary {
            sited: self.sited,
            typed: self.version == TYPED_VERSION,
            sites,
            told: (told.0 as u64, told.1 as u64),
            signatures: self.signatures.clone(),
            next: self.next.clone(),
            stored: self.stored as u64,
            emptied: self.emptied,
        }
    }

    /// Restores a writer's dictionary from a [saved](Self::save) and sound state.
    pub(crate) fn load(saved: SavedDictionary) -> Self {
        let mut bytes = 0;
        let numbers = saved.signatures.iter().zip(0..).map(|(signature, number)| {
            let encoded = encoded(signature, saved.typed);
            bytes += encoded.len();
            (encoded, number)
        });
        let numbers = numbers.collect();
        Self {
            version: match saved.typed {
                true => TYPED_VERSION,
                false => VERSION,
            },
            sited: saved.sited,
            numbered: saved.numbered().unwrap_or_default(),
            sites: Sites::default(),
            numbers,
            bytes,
            signatures: saved.signatures,
            next: saved.next,
            stored: saved.stored as usize,
            emptied: saved.emptied,
        }
    }
}

/// Decodes a signature without datatypes, and returns its length.
fn untyped(raw: &[u8]) -> Result<(Signature, usize), String> {
    type Parts = (Event, Vec<u8>, u32, Option<UntypedDetails>, bool);
    let (parts, used) = codec::decode_first::<Parts>(raw).map_err(unreadable)?;
    let (event, slots, site, details, folded) = parts;
    let signature = Signature {
        event,
        slots,
        site,
        details: details.map(|it| Box::new(it.into())),
        folded,
        earlier: EarlierNumber::default(),
    };
    Ok((signature, used))
}

/// Decodes a signature of an earlier version, with details `D`, and returns its length.
fn earlier<D: Decode<()> + Into<Details>>(raw: &[u8]) -> Result<(Signature, usize), String> {
    type Parts<D> = (EarlierEvent, Vec<u8>, u32, Option<D>, bool);
    let (parts, used) = codec::decode_first::<Parts<D>>(raw).map_err(unreadable)?;
    let (event, slots, site, details, folded) = parts;
    let earlier = EarlierNumber(Some(event.function()));
    let event = event.current();
    let event = event.ok_or("a signature is of a function that its version does not have")?;
    let details: Option<D> = details;
    let signature = Signature {
        event,
        slots,
        site,
        details: details.map(|it| Box::new(it.into())),
        folded,
        earlier,
    };
    Ok((signature, used))
}

fn unreadable(error: codec::CodecError) -> String {
    format!("a signature: {error}")
}

/// A writer's dictionary in its saved form.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct SavedDictionary {
    sited: bool,
    /// True if calls have datatypes.
    typed: bool,
    sites: NewSites,
    /// The numbers of files and stacks that are in the trace file.
    told: (u64, u64),
    signatures: Vec<Signature>,
    next: Vec<u32>,
    stored: u64,
    emptied: bool,
}

impl SavedDictionary {
    /// Returns the sites as numbered by the writer; `None` if they are invalid.
    fn numbered(&self) -> Option<SiteNumbers> {
        let told = (
            usize::try_from(self.told.0).ok()?,
            usize::try_from(self.told.1).ok()?,
        );
        SiteNumbers::of(&self.sites, told)
    }

    /// Returns the number of operands of each signature.
    pub(crate) fn slots(&self) -> Vec<usize> {
        self.signatures.iter().map(|it| it.slots.len()).collect()
    }

    /// True if a signature stands for several calls.
    pub(crate) fn is_folded(&self, number: u32) -> bool {
        let signature = self.signatures.get(number as usize);
        signature.is_some_and(|signature| signature.folded)
    }

    /// Returns the number of signatures.
    pub(crate) fn len(&self) -> usize {
        self.signatures.len()
    }

    /// Returns the number of signatures in the file.
    pub(crate) fn stored(&self) -> usize {
        self.stored as usize
    }

    /// True if its parts fit together: signatures are distinct, as in a dictionary that grew call by call.
    pub(crate) fn is_sound(&self) -> bool {
        let count = self.signatures.len();
        let known = |number: &u32| (*number as usize) < count.max(1);
        let signatures = self.signatures.iter();
        let encoded = signatures.map(|signature| encoded(signature, self.typed));
        let distinct: BTreeSet<Vec<u8>> = encoded.collect();
        let sites = self.sites.stacks.len();
        let sited = self.signatures.iter().all(|it| it.site as usize <= sites);
        self.stored <= count as u64
            && sited
            && (self.sited || sites == 0)
            && self.numbered().is_some()
            && self.next.len() == count
            && self.next.iter().all(known)
            && count <= MOST_SIGNATURES + crate::structure::CHUNK_CALLS
            && distinct.len() == count
    }
}

/// Encodes a signature, with datatypes if `typed`.
fn encoded(signature: &Signature, typed: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Encoding into memory cannot fail for a record that has an encoding.
    let _ = match typed {
        true => codec::encode(signature, &mut bytes),
        false => {
            let details = signature.details.as_deref().map(Details::untyped);
            let Signature {
                event,
                slots,
                site,
                folded,
                ..
            } = signature;
            codec::encode(&(event, slots, site, details, folded), &mut bytes)
        }
    };
    bytes
}
