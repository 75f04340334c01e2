//! The tables in a library's file.
//!
//! MPICH has them as text among its constants: one JSON document for each layer, each with a zero byte after it. Called by
//! [`Tables::of_library`](crate::Tables::of_library).

/// How a document begins.
const BEGINNING: &[u8] = br#"{"collective="#;

/// Bytes of a document, at most.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Documents in a file, at most.
const MAX_DOCUMENTS: usize = 16;

/// Bytes of a library's file that are looked at, at most. MPICH's has four million.
pub const MAX_LIBRARY_BYTES: u64 = 1 << 28;

/// The documents in a library's file.
pub(crate) fn documents(library: &[u8]) -> Vec<&[u8]> {
    let mut documents = Vec::new();
    let mut rest = library;
    while documents.len() < MAX_DOCUMENTS
        && let Some(at) = find(rest, BEGINNING)
    {
        rest = &rest[at..];
        let most = &rest[..rest.len().min(MAX_DOCUMENT_BYTES)];
        let end = most.iter().position(|byte| *byte == 0);
        let (document, after) = rest.split_at(end.unwrap_or(BEGINNING.len()));
        if end.is_some() {
            documents.push(document);
        }
        rest = after;
    }
    documents
}

/// Whether a library's file has these bytes.
pub(crate) fn has(library: &[u8], bytes: &[u8]) -> bool {
    find(library, bytes).is_some()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_among_other_bytes() {
        let library = b"\x7fELF\0{\"collective=a\":{}}\0\xff{\"collective=b\":{}}\0{\"collective=";
        let found = documents(library);
        assert_eq!(
            found,
            [br#"{"collective=a":{}}"#, br#"{"collective=b":{}}"#]
        );
        assert!(documents(b"nothing").is_empty());
    }
}
