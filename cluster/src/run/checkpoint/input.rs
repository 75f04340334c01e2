//! Reads the recorded input of consoles.
//!
//! The file is untrusted: a truncated last line is ignored, any other invalid line is an error. Called for
//! a resumed run, which repeats the input at the same virtual times.

use std::io;
use std::path::Path;

use belljar_sim::Time;

/// A piece of input: its time, its node, and its bytes.
pub(crate) type Piece = (Time, u32, Vec<u8>);

/// The pieces in `file` after its first `from` bytes, and the end of the last one. A truncated line is
/// ignored.
///
/// # Errors
/// If the file cannot be read, or a line is invalid.
pub(crate) fn read_input(file: &Path, from: u64) -> io::Result<(Vec<Piece>, u64)> {
    let text = match belljar_files::read_input(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && from == 0 => Vec::new(),
        text => text?,
    };
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let from = usize::try_from(from)
        .ok()
        .filter(|from| *from <= text.len());
    let from = from.ok_or_else(|| wrong("it is shorter than it was"))?;
    let whole = text.iter().rposition(|byte| *byte == b'\n');
    let end = whole.map_or(0, |last| last + 1).max(from);
    let lines = text[from..end].split_inclusive(|byte| *byte == b'\n');
    let pieces =
        lines.map(|line| piece(line).ok_or_else(|| wrong("a line is not a piece of input")));
    Ok((pieces.collect::<io::Result<_>>()?, end as u64))
}

fn piece(line: &[u8]) -> Option<Piece> {
    let line = line.strip_suffix(b"\n")?;
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let time = str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let node = words.next()?.strip_prefix(b"node")?;
    let node = str::from_utf8(node).ok()?.parse().ok()?;
    Some((Time::from_ps(time), node, unescape(words.next()?)?))
}

/// Undoes [`escape_ascii`](slice::escape_ascii).
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b't' => b'\t',
            b'r' => b'\r',
            b'n' => b'\n',
            b'x' => {
                let digits = [*rest.next()?, *rest.next()?];
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            same => *same,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let escaped = all.escape_ascii().to_string();
        assert_eq!(unescape(escaped.as_bytes()), Some(all));
    }

    #[test]
    fn whole_lines_behind_the_start_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input.log");
        assert_eq!(read_input(&file, 0).unwrap(), (Vec::new(), 0));
        assert!(read_input(&file, 1).is_err());
        let first = "100 node0 ls\\r\n";
        fs::write(&file, format!("{first}200 node12 a b\\x03\n300 nod")).unwrap();
        let (pieces, end) = read_input(&file, first.len() as u64).unwrap();
        assert_eq!(pieces, [(Time::from_ps(200), 12, b"a b\x03".to_vec())]);
        assert_eq!(end, first.len() as u64 + 19);
        assert_eq!(read_input(&file, 0).unwrap().0.len(), 2);
        fs::write(&file, "rubbish\n").unwrap();
        assert!(read_input(&file, 0).is_err());
    }
}
