//! The handle by which nodes share a pool, and by which its code is saved.
//!
//! The first vCPU that joins creates the pool, with the code of earlier runs if there is any. Runs hold
//! clones of one handle for each kind of nodes, which are made before their nodes.

use std::sync::{Arc, Mutex, PoisonError};

use belljar_cpu::CpuError;
use belljar_translate::host::shared::Character;

use super::Pool;
use super::saved::SavedCodeError;
use super::seal::{self, CodeKey, SealedCode};

/// The part of a pool's earlier code, as a divisor, by which it must have grown to be saved again.
const WORTH_SAVING: usize = 50;

/// A handle of translated code for nodes that share pages of code with the same bytes. Nodes that
/// share get clones of one value. They may run at the same time, and their behaviour does not
/// depend on it.
#[derive(Clone)]
pub struct CodePool {
    pool: Arc<Mutex<Option<Arc<Pool>>>>,
    /// Size of the code memory.
    bytes: usize,
    saved: Option<Arc<SavedBefore>>,
}

/// Provides code of earlier runs, if there is any.
type CodeSource = Box<dyn FnOnce() -> Option<SealedCode> + Send>;

/// Code of earlier runs, for the first vCPU that joins.
struct SavedBefore {
    /// The build of this program.
    build: String,
    source: Mutex<Option<CodeSource>>,
    /// The reason why it was not used.
    refusal: Mutex<Option<SavedCodeError>>,
}

impl CodePool {
    /// A pool with `bytes` bytes for code. Tables take about three times as much in addition. When
    /// it is full, nodes translate further code for themselves.
    pub fn with_room(bytes: usize) -> Self {
        Self {
            pool: Arc::default(),
            bytes,
            saved: None,
        }
    }

    /// The same, beginning with the code of an earlier run of this `build` that `source` provides when
    /// the first vCPU joins, if there is any. Code that is for another build, host or processor is not
    /// used; see [`refusal`](Self::refusal).
    #[must_use]
    pub fn beginning_with(
        self,
        source: impl FnOnce() -> Option<SealedCode> + Send + 'static,
        build: &str,
    ) -> Self {
        Self {
            saved: Some(Arc::new(SavedBefore {
                build: build.to_owned(),
                source: Mutex::new(Some(Box::new(source))),
                refusal: Mutex::default(),
            })),
            ..self
        }
    }

    /// The reason why code of an earlier run was not used. `None` also before a vCPU joins.
    pub fn refusal(&self) -> Option<SavedCodeError> {
        let saved = self.saved.as_ref()?;
        *saved.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pool's code, sealed with `key`, for a later run of the same build. `None` if it has hardly
    /// more than the code that it began with, is not
    /// [to be saved](Self::beginning_with), or is larger than a later run would use.
    pub fn sealed(&self, key: &CodeKey) -> Option<Vec<u8>> {
        let saved = self.saved.as_ref()?;
        let place = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = place.as_ref()?;
        let added = pool.blocks.count();
        if added == 0 || added < pool.restored.blocks() / WORTH_SAVING {
            return None;
        }
        let identity = seal::identity(&saved.build, &pool.character, self.bytes);
        seal::seal(pool, identity, key)
    }

    /// Number of distinct pages of code, and of blocks in them.
    pub fn size(&self) -> (usize, usize) {
        let pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.as_ref()
            .map_or((0, 0), |pool| (pool.contents.pages(), pool.block_count()))
    }

    /// The pool, which the first caller creates. `None` for a pool of code with another character.
    pub(crate) fn join(&self, character: &Character) -> Result<Option<Arc<Pool>>, CpuError> {
        let mut place = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = match &*place {
            Some(pool) => pool.clone(),
            None => {
                let pool = self.new_pool(character)?;
                place.insert(Arc::new(pool)).clone()
            }
        };
        Ok((pool.character == *character).then_some(pool))
    }

    /// A pool with the code of earlier runs, if it is for code of this character.
    fn new_pool(&self, character: &Character) -> Result<Pool, CpuError> {
        let empty = || Pool::new(character.clone(), self.bytes);
        let saved = self.saved.as_ref();
        let taken = saved.and_then(|saved| {
            let mut source = saved.source.lock().unwrap_or_else(PoisonError::into_inner);
            let code = source.take()?();
            Some((saved, code?))
        });
        let Some((saved, code)) = taken else {
            return empty();
        };
        let mut pool = empty()?;
        let identity = seal::identity(&saved.build, character, self.bytes);
        let filled = code.pool(identity).and_then(|state| state.fill(&mut pool));
        if let Err(refusal) = filled {
            *saved.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal);
            return empty();
        }
        Ok(pool)
    }
}
