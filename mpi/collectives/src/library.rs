//! The tables in a library's file.
//!
//! MPICH has them as text among its constants: one JSON document for each layer, each followed by a zero byte. Used by
//! [`Tables::of_library`](crate::Tables::of_library).

/// The beginning of a document.
const BEGINNING: &[u8] = br#"{"collective="#;

/// Most bytes of a document.
const MAX_DOCUMENT_BYTES: usize = 1 << 20;

/// Most documents in a file.
const MAX_DOCUMENTS: usize = 16;

/// Most bytes of a library's file that are searched. MPICH's file has four million.
pub const MAX_LIBRARY_BYTES: u64 = 1 << 28;

/// Returns the documents in a library's file.
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

/// True if a library's file contains these bytes.
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
