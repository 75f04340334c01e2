//! Profiles written and read, whole and damaged, and their output.

use std::fs;
use std::io::Read;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

const HEAD: Head = Head {
    node: 1,
    vcpus: 2,
    every: 1_000_000,
    first: 10,
};

fn sample(number: u64, kernel: Option<u64>) -> Sample {
    Sample {
        number,
        count: 1,
        vcpu: 0,
        space: 0x1000,
        rank: Some(3),
        kernel,
        stack: 0,
    }
}

/// Three samples in `inner` for each in `outer`, and occasionally one in the kernel.
fn written(count: u64) -> Vec<u8> {
    let mut writer = Writer::new(&HEAD);
    let mut bytes = Vec::new();
    for number in 0..count {
        add(&mut writer, number);
        bytes.extend(writer.take());
        if number % 1000 == 77 {
            writer = Writer::resume(writer.save());
        }
    }
    writer.finish(10 + 2 * count);
    bytes.extend(writer.take());
    bytes
}

fn add(writer: &mut Writer, number: u64) {
    let file = writer.file(&CodeFile {
        path: "/bin/made;up".to_owned(),
        build_id: vec![1],
    });
    let frame = |address| SampleFrame {
        file: Some(file),
        address,
    };
    let mut stack = vec![frame(2), frame(1)];
    if number % 4 == 3 {
        stack.remove(0);
    }
    let kernel = (number % 8 == 5).then_some(0xffff_ffff_8100_0000);
    writer.add(sample(10 + number, kernel), stack);
}

fn read_back(bytes: &[u8], filter: Filter) -> (Result<State, ProfileError>, Tally) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let mut tally = Tally::new(filter);
    (read(file.path(), &mut tally), tally)
}

fn names(_: &CodeFile, address: u64) -> Vec<String> {
    match address {
        1 => vec!["outer".to_owned()],
        2 => vec!["inlined".to_owned(), "inner".to_owned()],
        _ => Vec::new(),
    }
}

fn told(named: &Named, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    named.write(format, &mut out).unwrap();
    out
}

fn text(named: &Named, format: Format) -> String {
    String::from_utf8(told(named, format)).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let (state, tally) = read_back(&written(8000), Filter::default());
    assert_eq!(state.unwrap(), State::Whole);
    let named = tally.name(Split::None, names);
    assert_eq!((named.samples(), named.points), (8000, 2 * 16_000));
    let folded = "outer 2000\nouter;inner;inlined 5000\nouter;inner;inlined;[kernel] 1000\n";
    assert_eq!(text(&named, Format::Folded), folded);
    let table = text(&named, Format::Table);
    assert!(table.contains("idle for 24.00 ms, 75.00 %"), "{table}");
    assert!(table.contains(" 62.50 %   75.00 %"), "{table}");
    assert!(table.contains(" 0.00 %   75.00 %"), "{table}");
    // The result does not depend on when bytes were taken or state was saved.
    let mut writer = Writer::new(&HEAD);
    (0..8000).for_each(|number| add(&mut writer, number));
    writer.finish(10 + 16_000);
    assert!(writer.take() == written(8000));
}

#[test]
fn functions_of_the_kernel_are_named_where_it_has_names() {
    let bytes = written(8000);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let kernel = 0xffff_ffff_8100_0000;
    for (functions, stack) in [
        (vec![(kernel, Some("copy"))], "inlined;[kernel];copy 1000\n"),
        (
            vec![(kernel - 8, Some("copy")), (kernel, None)],
            "inlined;[kernel] 1000\n",
        ),
        (vec![(kernel + 1, Some("copy"))], "inlined;[kernel] 1000\n"),
    ] {
        let functions = functions.into_iter();
        let functions = functions.map(|(at, name)| (at, name.map(Arc::from)));
        let mut tally = Tally::new(Filter::default()).with_kernel(0, functions.collect());
        assert_eq!(read(file.path(), &mut tally).unwrap(), State::Whole);
        let folded = text(&tally.name(Split::None, names), Format::Folded);
        assert!(folded.contains(stack), "{folded}");
    }
}

#[test]
fn samples_are_chosen_and_split() {
    let bytes = written(100);
    let with = |filter| {
        let (state, tally) = read_back(&bytes, filter);
        assert_eq!(state.unwrap(), State::Whole);
        tally.name(Split::Rank, |_, _| Vec::new())
    };
    let some = with(Filter {
        from: Some(12_000_000),
        to: Some(15_500_000),
        ..Filter::default()
    });
    assert_eq!((some.samples(), some.points), (4, 8));
    assert!(text(&some, Format::Folded).starts_with("rank 3;[made_up] 1\n"));
    let other_rank = Filter {
        ranks: vec![4],
        ..Filter::default()
    };
    assert_eq!(with(other_rank).samples(), 0);
    let other_node = Filter {
        nodes: vec![0],
        ..Filter::default()
    };
    let none = with(other_node);
    assert_eq!((none.samples(), none.points), (0, 0));
}

#[test]
fn pictures_and_protobufs_have_all_functions() {
    let (_, tally) = read_back(&written(800), Filter::default());
    let named = tally.name(Split::Node, |_, address| vec![format!("f<{address}>")]);
    let picture = text(&named, Format::Svg);
    for part in [
        "f&lt;1&gt; (800 samples, 100.00 %)",
        "f&lt;2&gt; (600 samples, 75.00 %)",
        "node 1",
    ] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    let mut plain = Vec::new();
    let packed = told(&named, Format::Pprof);
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    unpacked.read_to_end(&mut plain).unwrap();
    // Two kinds of values, then samples; strings, among them the functions.
    assert_eq!(plain[..6], [0x0a, 4, 8, 1, 0x10, 2]);
    for word in [
        &b"\x32\x04f<1>"[..],
        b"\x32\x08[kernel]",
        b"\x32\x0bnanoseconds",
    ] {
        assert!(plain.windows(word.len()).any(|part| part == word));
    }
    assert_eq!(packed, told(&named, Format::Pprof));
}

#[test]
fn a_file_that_was_cut_is_read_as_far_as_it_is_whole() {
    let bytes = written(5000);
    for length in [12, 20, 60, bytes.len() - 1] {
        let (state, tally) = read_back(&bytes[..length], Filter::default());
        assert_eq!(state.unwrap(), State::Cut, "{length}");
        let samples = tally.name(Split::None, names).samples();
        assert!([0, 4096, 5000].contains(&samples), "{samples}");
    }
    let mut changed = bytes.clone();
    let last = changed.len() - 40;
    changed[last] ^= 1;
    let (state, tally) = read_back(&changed, Filter::default());
    let error = state.unwrap_err().to_string();
    assert!(
        error.contains("at byte ") && error.contains("checksum"),
        "{error}"
    );
    assert_eq!(tally.name(Split::None, names).samples(), 4096);
    let (state, _) = read_back(b"something else", Filter::default());
    assert!(state.unwrap_err().to_string().contains("at byte 0"));
}

proptest! {
    #[test]
    fn no_bytes_are_fatal(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        from in 0..20usize,
    ) {
        let mut bytes = written(100);
        for (at, byte) in changes {
            let at = at.index(bytes.len() - from) + from;
            bytes[at] = byte;
        }
        let (_, tally) = read_back(&bytes, Filter::default());
        let named = tally.name(Split::None, names);
        for format in [Format::Table, Format::Json, Format::Svg, Format::Pprof] {
            told(&named, format);
        }
    }

    /// Records with numbers that a writer never produces.
    #[test]
    fn no_samples_are_fatal(numbers in prop::collection::vec(any::<[u64; 2]>(), 1..20), every in any::<u64>()) {
        let mut writer = Writer::new(&Head { every, ..HEAD });
        for [number, count] in numbers {
            writer.add(Sample { count, ..sample(number, None) }, Vec::new());
        }
        writer.finish(u64::MAX);
        let (_, tally) = read_back(&writer.take(), Filter { from: Some(every), ..Filter::default() });
        let named = tally.name(Split::None, names);
        for format in [Format::Table, Format::Json, Format::Svg, Format::Pprof] {
            told(&named, format);
        }
    }
}

#[test]
fn samples_outside_of_the_spans_of_their_process_do_not_count() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), written(100)).unwrap();
    // Points 10 to 109, every microsecond; only rank 3 on node 1.
    let told = |key: (u32, u32), spans: &[(u64, u64)]| {
        let filter = Filter {
            spans: Some(Spans::from([(key, spans.to_vec())])),
            ..Filter::default()
        };
        let mut tally = Tally::new(filter);
        assert_eq!(read(file.path(), &mut tally).unwrap(), State::Whole);
        tally.name(Split::None, |_, _| Vec::new()).samples()
    };
    assert_eq!(told((1, 3), &[(0, u64::MAX)]), 100);
    assert_eq!(told((1, 3), &[(20_000_000, 30_000_000)]), 10);
    assert_eq!(told((1, 3), &[(0, 11_000_000), (109_000_000, u64::MAX)]), 2);
    assert_eq!(told((0, 3), &[(0, u64::MAX)]), 0);
    assert_eq!(told((1, 2), &[(0, u64::MAX)]), 0);
}
