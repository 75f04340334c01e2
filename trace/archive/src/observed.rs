//! Readers that report their positions.
//!
//! Analyses read a trace once or several times. A caller that shows progress observes all readers that its thread opens in that
//! time.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reader's position in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// The number of the reader: later ones have higher numbers.
    pub reader: u64,
    /// Bytes read.
    pub offset: u64,
    /// Bytes of the file.
    pub length: u64,
}

type Observer = Rc<dyn Fn(&Path, ReadPosition)>;

thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Runs `work`; readers that this thread opens in that time report their positions to `observer` after each chunk.
pub fn observed<T>(
    observer: impl Fn(&Path, ReadPosition) + 'static,
    work: impl FnOnce() -> T,
) -> T {
    /// Restores the observer of an outer call, also after a panic.
    struct Before(Option<Observer>);
    impl Drop for Before {
        fn drop(&mut self) {
            OBSERVER.set(self.0.take());
        }
    }
    let _before = Before(OBSERVER.replace(Some(Rc::new(observer))));
    work()
}

/// The observation of one reader.
pub(crate) struct Observation {
    reader: u64,
    path: PathBuf,
    length: u64,
}

impl fmt::Debug for Observation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Observation").field(&self.path).finish()
    }
}

impl Observation {
    /// Begins the observation of a reader of the file at `path`, if this thread has an observer.
    pub(crate) fn begin(path: &Path, length: u64) -> Option<Self> {
        static READERS: AtomicU64 = AtomicU64::new(1);
        OBSERVER.with_borrow(Option::is_some).then(|| Self {
            reader: READERS.fetch_add(1, Ordering::Relaxed),
            path: path.to_owned(),
            length,
        })
    }

    /// Reports the number of bytes read. Readers that were moved to another thread report nothing.
    pub(crate) fn report(&self, offset: u64) {
        let observer = OBSERVER.with_borrow(Clone::clone);
        if let Some(observer) = observer {
            let position = ReadPosition {
                reader: self.reader,
                offset,
                length: self.length,
            };
            observer(&self.path, position);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::TraceReader;

    #[test]
    fn readers_report_their_positions_up_to_the_end_of_the_file() {
        let pinned = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/frozen/runs");
        let traces = fs::read_dir(pinned).unwrap().flatten();
        let traces = traces.map(|entry| entry.path().join("trace.bjt"));
        let path = traces.into_iter().find(|path| path.is_file()).unwrap();
        let seen: Rc<RefCell<Vec<ReadPosition>>> = Rc::default();
        let read = || TraceReader::open(&path).unwrap().count();
        let positions = Rc::clone(&seen);
        let counts = observed(
            move |_, position| positions.borrow_mut().push(position),
            || [read(), read()],
        );
        assert_eq!(counts[0], counts[1]);
        // Observation has ended.
        assert_eq!(read(), counts[0]);
        let seen = seen.take();
        let length = fs::metadata(&path).unwrap().len();
        let [first, last] = [seen.first().unwrap(), seen.last().unwrap()];
        assert!(first.reader < last.reader);
        assert_eq!((last.offset, last.length), (length, length));
        assert!(seen.is_sorted_by_key(|position| (position.reader, position.offset)));
    }
}
