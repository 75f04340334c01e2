//! Threads in damaged sections.

use super::*;
use belljar_trace::MpiLibrary;

/// Decodes a thread with implementation number `number`.
fn decoded(number: u64) -> Option<Stream> {
    let (mut models, mut coder) = (Models::default(), Encoder::new());
    for field in [1, 2, 3, 4, number] {
        models.place.code(&mut coder, field);
    }
    let bytes = coder.finish();
    let nobody = Stream {
        node: 0,
        process: 0,
        thread: 0,
        rank: 0,
        implementation: Implementation::Mpich,
    };
    Models::default().code_stream(&mut Decoder::new(&bytes), &nobody)
}

#[test]
fn threads_of_unknown_implementations_are_refused() {
    let abi = decoded(3).map(|stream| stream.implementation);
    assert_eq!(abi, Some(Implementation::StandardAbi(MpiLibrary::OpenMpi)));
    assert_eq!(decoded(5), None);
    assert_eq!(decoded(u64::from(u32::MAX)), None);
}
