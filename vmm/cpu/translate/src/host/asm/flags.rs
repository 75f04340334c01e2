//! Saving and restoring the arithmetic flags through RAX.
//!
//! LAHF and SETO move them to AX, ADD and SAHF restore them, without a stack. RAX is overwritten;
//! the callers `emit/kept`, `emit/undefined` and `stubs` save it.

use super::Asm;

const LAHF: [u8; 1] = [0x9f];
const SAHF: [u8; 1] = [0x9e];
const SETO_AL: [u8; 3] = [0x0f, 0x90, 0xc0];
const ADD_AL_127: [u8; 2] = [0x04, 0x7f];

impl Asm {
    /// Saves the arithmetic flags in AX.
    pub(crate) fn flags_to_ax(&mut self) {
        self.bytes(&LAHF);
        self.bytes(&SETO_AL);
    }

    /// Restores the arithmetic flags that [`flags_to_ax`](Self::flags_to_ax) saved.
    pub(crate) fn flags_from_ax(&mut self) {
        // The sum overflows if AL is one; SAHF does not change OF.
        self.bytes(&ADD_AL_127);
        self.bytes(&SAHF);
    }
}
