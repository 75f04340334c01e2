//! Code with addresses relative to its page.
//!
//! The samples are translated as user code beyond 4 GiB, and show how such code leaves its page and
//! uses addresses. `golden/samples` has them in its list of files.

use iced_x86::code_asm::CodeAssembler;

use super::{CODE, CodeSample, block, raw};
use belljar_translate::guest::size::CodeSize;

pub(super) fn relative() -> Vec<CodeSample> {
    vec![
        block("a call out of the page", |a| a.call(CODE + 0x1234)).relative(),
        block("a jump within the page", |a| a.jmp(CODE + 0x234)).relative(),
        block("a system call", CodeAssembler::syscall).relative(),
        // mov rax, [rip + 0x100]; lea r14, [rip + 0x2000]
        raw(
            "what is relative to rip",
            CodeSize::Long,
            &[
                0x48, 0x8b, 5, 0, 1, 0, 0, 0x4c, 0x8d, 0x35, 0, 0x20, 0, 0, 0xeb, 0xfe,
            ],
        )
        .relative(),
    ]
}
