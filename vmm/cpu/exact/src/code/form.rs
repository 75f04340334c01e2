//! The forms of translations, and the form that a lookup requests.
//!
//! The translator's caller chooses the form: `find` for blocks and stubs, `find::hot` for traces.

/// The form of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A block, whose instructions count.
    Block,
    /// A block of stub instructions, which do not count.
    Stub,
    /// A hot trace, whose accesses are checked in groups.
    Trace,
}

impl Form {
    /// True if its instructions do not count.
    pub(crate) fn is_free(self) -> bool {
        self == Self::Stub
    }

    /// True if it is made of a hot block and its successors.
    pub(crate) fn is_hot(self) -> bool {
        self == Self::Trace
    }
}

/// The form of block that a lookup requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// The fastest one: the hot trace rather than the block.
    Best,
    /// The block, which checks each access by itself.
    Plain,
}

impl Sought {
    /// Plain if `plain` is true.
    pub(crate) fn plain_if(plain: bool) -> Self {
        if plain { Self::Plain } else { Self::Best }
    }
}
