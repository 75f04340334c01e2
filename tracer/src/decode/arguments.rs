//! A call's arguments by name, and the memory that they point to.
//!
//! Reading is bounded for any arguments, and in the worst case yields nothing: the first argument with unreadable memory is recorded in the
//! event. Used by `process`, its modules, and `collective`.

use belljar_mpi::{Base, Function, Parameter};
use belljar_trace::{Event, Implementation, Status, Text};

use crate::decode::implementation;
use crate::guest::memory::{BadAddress, Reader};

/// A call's arguments with their description. Records the first argument that points to unreadable memory.
pub(crate) struct Arguments<'a> {
    function: &'static Function,
    base: &'static str,
    words: &'a [u64],
    pub(crate) implementation: Implementation,
    memory: Reader<'a>,
    bad: Option<u8>,
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(event: &'a Event, memory: Reader<'a>) -> Self {
        Self {
            function: event.description(),
            base: event.meaning().base,
            words: &event.arguments,
            implementation: event.implementation,
            memory,
            bad: event.bad,
        }
    }

    /// Returns the name of the base function, without `MPI_` and the suffixes of its variant.
    pub(crate) fn base(&self) -> &'static str {
        self.base
    }

    /// Returns the process's memory.
    pub(crate) fn memory(&self) -> Reader<'a> {
        self.memory
    }

    /// Returns the first argument whose memory could not be read.
    pub(crate) fn bad(&self) -> Option<u8> {
        self.bad
    }

    fn find(&self, name: &str) -> Option<(usize, &'static Parameter, u64)> {
        let parameters = self.function.parameters.iter();
        let (index, parameter) = parameters
            .enumerate()
            .find(|(_, parameter)| parameter.name == name)?;
        Some((index, parameter, self.words.get(index).copied()?))
    }

    /// True if there is an argument of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the word of an argument.
    pub(crate) fn word(&self, name: &str) -> Option<u64> {
        self.find(name).map(|(_, _, word)| word)
    }

    /// Returns the value of an `int` argument.
    pub(crate) fn int(&self, name: &str) -> Option<i32> {
        self.word(name).map(|word| word as i32)
    }

    /// Returns the value of an argument that is a count; negative values become 0.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        let word = self.word(name)?.cast_signed();
        Some(u64::try_from(word).unwrap_or(0))
    }

    /// Returns the handle passed by value in the first argument of this kind.
    pub(crate) fn first_handle(&self, base: Base) -> Option<u64> {
        let mut parameters = self.function.parameters.iter();
        let index =
            parameters.position(|parameter| parameter.base == base && parameter.pointer == 0)?;
        self.words.get(index).copied()
    }

    /// Returns the handle at the last non-const pointer to one of this kind: an output, or the object to free. (The last, because MPI-1
    /// declared input arrays without const.)
    pub(crate) fn pointed_handle(&mut self, base: Base) -> Option<u64> {
        let mut parameters = self.function.parameters.iter().rev();
        let parameter = parameters.find(|parameter| {
            parameter.base == base && parameter.pointer == 1 && !parameter.is_const
        })?;
        self.handles(parameter.name, 1)?.first().copied()
    }

    /// Returns the bytes of an argument's target.
    fn width(&self, base: Base) -> u8 {
        match base {
            Base::Int | Base::Fint => 4,
            Base::Void
            | Base::Char
            | Base::Double
            | Base::Aint
            | Base::Count
            | Base::Offset
            | Base::Callback => 8,
            _ => self.implementation.handle_width(),
        }
    }

    fn note<T>(&mut self, argument: usize, read: Result<T, BadAddress>) -> Option<T> {
        if read.is_err() && self.bad.is_none() {
            self.bad = u8::try_from(argument).ok();
        }
        read.ok()
    }

    /// Returns the first `count` integers at an argument's address, truncated at a limit.
    pub(crate) fn integers(&mut self, name: &str, count: u64) -> Option<Vec<i64>> {
        let (index, parameter, at) = self.find(name)?;
        let read = self.memory.integers(at, count, self.width(parameter.base));
        self.note(index, read)
    }

    /// Returns the integers at the address of an argument whose array may be shorter than `count`: as many as can be read. An empty result
    /// is an error if they are `needed`.
    pub(crate) fn integers_there(&mut self, name: &str, count: u64, needed: bool) -> Vec<i64> {
        let Some((index, parameter, at)) = self.find(name) else {
            return Vec::new();
        };
        let width = self.width(parameter.base);
        let read = self.memory.integers_there(at, count, width);
        if needed && read.is_empty() && count > 0 {
            self.note::<()>(index, Err(BadAddress(at)));
        }
        read
    }

    /// Returns the integer at an argument's address.
    pub(crate) fn integer(&mut self, name: &str) -> Option<i64> {
        self.integers(name, 1)?.first().copied()
    }

    /// Returns the first `count` handles at an argument's address, truncated at a limit.
    pub(crate) fn handles(&mut self, name: &str, count: u64) -> Option<Vec<u64>> {
        let (index, parameter, at) = self.find(name)?;
        let read = self.memory.handles(at, count, self.width(parameter.base));
        self.note(index, read)
    }

    /// The same as [`integers_there`](Self::integers_there), for handles.
    pub(crate) fn handles_there(&mut self, name: &str, count: u64, needed: bool) -> Vec<u64> {
        let narrow = self.implementation.handle_width() == 4;
        let mask = if narrow {
            u64::from(u32::MAX)
        } else {
            u64::MAX
        };
        let read = self.integers_there(name, count, needed);
        read.into_iter()
            .map(|word| word.cast_unsigned() & mask)
            .collect()
    }

    /// Returns status number `position` of the argument `name`; `None` if the program ignores it, or the layout of the library's statuses
    /// is unknown.
    pub(crate) fn status(&mut self, name: &str, position: u64) -> Option<Status> {
        let implementation = self.implementation;
        self.at_status(name, position, |at, memory| {
            implementation::status(implementation, at, memory)
        })?
    }

    /// True if the program ignores the statuses of the argument `name`.
    pub(crate) fn ignores_status(&self, name: &str) -> bool {
        let word = self.word(name);
        word.is_some_and(|word| self.implementation.ignores_status(word))
    }

    /// Returns the `MPI_ERROR` of that status.
    pub(crate) fn status_error(&mut self, name: &str, position: u64) -> Option<i32> {
        let implementation = self.implementation;
        self.at_status(name, position, |at, memory| {
            implementation::status_error(implementation, at, memory)
        })
    }

    fn at_status<T>(
        &mut self,
        name: &str,
        position: u64,
        read: impl FnOnce(u64, Reader<'a>) -> Result<T, BadAddress>,
    ) -> Option<T> {
        let (index, _, at) = self.find(name)?;
        if self.implementation.ignores_status(at) {
            return None;
        }
        let offset = position.checked_mul(implementation::status_size(self.implementation));
        let read = offset
            .and_then(|offset| at.checked_add(offset))
            .ok_or(BadAddress(at))
            .and_then(|at| read(at, self.memory));
        self.note(index, read)
    }

    /// Returns the text at an argument's address.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let (index, _, at) = self.find(name)?;
        let read = self.memory.text(at);
        self.note(index, read)
    }

    /// Returns the texts among the call's arguments.
    pub(crate) fn texts(&mut self) -> Vec<Text> {
        let mut texts = Vec::new();
        for (index, parameter) in self.function.parameters.iter().enumerate() {
            let is_text =
                parameter.base == Base::Char && parameter.pointer == 1 && parameter.is_const;
            let at = self.words.get(index).copied().unwrap_or(0);
            if !is_text || at == 0 {
                continue;
            }
            let read = self.memory.text(at);
            if let Some(text) = self.note(index, read) {
                texts.push(Text {
                    argument: index as u8,
                    text,
                });
            }
        }
        texts
    }
}
