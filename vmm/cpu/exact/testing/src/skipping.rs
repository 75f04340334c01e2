//! Steps of random programs, some skipped by conditional jumps.

use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;

/// Emits all steps. Each of `skips` is a step, modulo their number, and the flag by which it is
/// skipped.
pub fn skipping<S>(
    a: &mut CodeAssembler,
    steps: &[S],
    skips: &[(usize, u8)],
    mut emit: impl FnMut(&mut CodeAssembler, &S) -> Result<(), IcedError>,
) -> Result<(), IcedError> {
    for (index, step) in steps.iter().enumerate() {
        let skip = skips.iter().find(|skip| skip.0 % steps.len() == index);
        let mut over = a.create_label();
        match skip.map(|skip| skip.1 % 4) {
            Some(0) => a.jc(over)?,
            Some(1) => a.jz(over)?,
            Some(2) => a.js(over)?,
            Some(_) => a.jp(over)?,
            None => {}
        }
        emit(a, step)?;
        if skip.is_some() {
            a.set_label(&mut over)?;
            a.nop()?;
        }
    }
    Ok(())
}
