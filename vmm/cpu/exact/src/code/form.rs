//! What a run of guest instructions is translated as, and which of its translations is sought.
//!
//! Whoever translates says so: `find` for blocks and stubs, `find::hot` for traces.

/// What is made of guest code.
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
    /// Its instructions do not count.
    pub(crate) fn is_free(self) -> bool {
        self == Self::Stub
    }

    /// It is made of a hot block and those that follow it.
    pub(crate) fn is_hot(self) -> bool {
        self == Self::Trace
    }
}

/// Which of the blocks that stand at a place is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// The fastest that there is: the hot trace before the block.
    Best,
    /// The block, which checks each access by itself.
    Plain,
}

impl Sought {
    /// Plain where `plain` holds.
    pub(crate) fn plain_if(plain: bool) -> Self {
        if plain { Self::Plain } else { Self::Best }
    }
}
