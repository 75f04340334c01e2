//! Words of a line: numbers, peers, datatypes.
//!
//! Used for each action.

/// Bytes of the elements of datatypes, by SimGrid's numbers.
const DATATYPES: [u64; 30] = [
    8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8,
];
/// `MPI_DOUBLE` and `MPI_BYTE`.
pub(super) const DOUBLE: u64 = 8;
pub(super) const BYTE: u64 = 1;

/// Returns the rank at the beginning of a line: a number, or one after a `p`.
pub(super) fn rank(word: &str) -> Option<u32> {
    word.strip_prefix('p').unwrap_or(word).parse().ok()
}

/// The rest of a line.
#[derive(Clone, Debug)]
pub(super) struct Words<'l> {
    words: Vec<&'l str>,
    at: usize,
    /// Bytes of elements without a datatype.
    pub(super) element: u64,
}

impl<'l> Words<'l> {
    pub(super) fn new(words: Vec<&'l str>, element: u64) -> Self {
        Self {
            words,
            at: 0,
            element,
        }
    }

    /// Returns the number of remaining words.
    pub(super) fn left(&self) -> usize {
        self.words.len() - self.at
    }

    /// Returns the next word.
    pub(super) fn next(&mut self) -> Option<&'l str> {
        let word = self.words.get(self.at).copied();
        self.at += usize::from(word.is_some());
        word
    }

    /// Reads a count, which may be written as a number with a fraction.
    pub(super) fn count(&mut self) -> Result<u64, String> {
        let word = self.next().ok_or("a number is missing")?;
        let number = word.parse::<f64>().ok();
        let number = number.filter(|it| it.is_finite() && *it >= 0.0);
        match word.parse() {
            Ok(count) => Ok(count),
            Err(_) => number
                .map(|it| it as u64)
                .ok_or_else(|| format!("{word:?} stands where a number should")),
        }
    }

    /// Reads an amount of work; negative values become 0.
    pub(super) fn work(&mut self) -> Result<f64, String> {
        let word = self.next().ok_or("an amount of work is missing")?;
        let number = word.parse::<f64>().ok().filter(|it| it.is_finite());
        let number =
            number.ok_or_else(|| format!("{word:?} stands where an amount of work should"))?;
        Ok(number.max(0.0))
    }

    /// Reads a number that may be negative.
    pub(super) fn signed(&mut self) -> Result<i64, String> {
        let word = self.next().ok_or("a number is missing")?;
        let number = word.parse();
        number.map_err(|_| format!("{word:?} stands where a number should"))
    }

    /// Reads this many counts.
    pub(super) fn counts(&mut self, many: u32) -> Result<Vec<u64>, String> {
        if (many as usize) > self.left() {
            return Err(format!("{many} numbers should follow, one for each rank"));
        }
        (0..many).map(|_| self.count()).collect()
    }

    /// Returns the bytes of an element, by the datatype if there is one.
    pub(super) fn datatype(&mut self) -> Result<u64, String> {
        let Some(word) = self.next() else {
            return Ok(self.element);
        };
        let size = word.parse().ok().and_then(|it: usize| DATATYPES.get(it));
        size.copied()
            .ok_or_else(|| format!("{word:?} is no number of a datatype of SimGrid"))
    }
}
