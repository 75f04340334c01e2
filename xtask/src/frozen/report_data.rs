//! The data of a report's page: its elements of packed bytes, unpacked.
//!
//! Script, style and frame of the page are left out: they are no results.

use std::io::Read;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;

/// The beginning of an element with data, up to its name.
const ELEMENT: &str = "<script type=\"application/octet-stream\" id=\"";

/// The names and the unpacked bytes of all data in `page`.
pub(super) fn unpack(page: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let elements = page.split(ELEMENT).skip(1);
    let unpacked = elements.map(|element| {
        let (name, rest) = element
            .split_once("\">")
            .context("an element has no name")?;
        let (packed, _) = rest
            .split_once("</script>")
            .context("an element has no end")?;
        let packed = STANDARD.decode(packed);
        let packed = packed.with_context(|| format!("{name} is no Base64"))?;
        let mut bytes = Vec::new();
        let read = DeflateDecoder::new(&packed[..]).read_to_end(&mut bytes);
        read.with_context(|| format!("{name} cannot be unpacked"))?;
        Ok((name.to_owned(), without_version(bytes)))
    });
    unpacked.collect()
}

/// The same bytes without the trace format's number, if they are text: a new version of the format changes no result.
fn without_version(bytes: Vec<u8>) -> Vec<u8> {
    const BEFORE: &str = "trace format ";
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return error.into_bytes(),
    };
    let Some((before, after)) = text.split_once(BEFORE) else {
        return text.into_bytes();
    };
    let after = after.trim_start_matches(|letter: char| letter.is_ascii_digit());
    format!("{before}{BEFORE}{after}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_unpacked_without_the_version_of_the_format() {
        use flate2::Compression;
        use flate2::write::DeflateEncoder;
        use std::io::Write;

        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"[\"0.1.0, trace format 13\"]").unwrap();
        let packed = STANDARD.encode(encoder.finish().unwrap());
        let page = format!("<p>frame</p>{ELEMENT}facts\">{packed}</script><script>1</script>");
        let facts = ("facts".to_owned(), b"[\"0.1.0, trace format \"]".to_vec());
        assert_eq!(unpack(&page).unwrap(), [facts]);
    }
}
