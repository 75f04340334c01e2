//! The arithmetic flags by way of RAX.
//!
//! LAHF and SETO take them to AX, ADD and SAHF bring them back, without a stack. What RAX held is
//! lost; whoever calls this, `emit/kept`, `emit/undefined` and `stubs`, keeps it elsewhere
//! meanwhile.

use super::Asm;

const LAHF: [u8; 1] = [0x9f];
const SAHF: [u8; 1] = [0x9e];
const SETO_AL: [u8; 3] = [0x0f, 0x90, 0xc0];
const ADD_AL_127: [u8; 2] = [0x04, 0x7f];

impl Asm {
    /// AX: the arithmetic flags.
    pub(crate) fn flags_to_ax(&mut self) {
        self.bytes(&LAHF);
        self.bytes(&SETO_AL);
    }

    /// The arithmetic flags: what [`flags_to_ax`](Self::flags_to_ax) made of them.
    pub(crate) fn flags_from_ax(&mut self) {
        // The sum overflows if AL is one; SAHF leaves OF alone.
        self.bytes(&ADD_AL_127);
        self.bytes(&SAHF);
    }
}
