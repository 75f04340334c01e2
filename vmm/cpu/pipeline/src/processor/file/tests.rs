//! Valid and invalid processor files.

use super::*;

const ZEN5: &str = BUILT_IN[0].1;

fn parse(text: &str) -> Result<Processor, String> {
    Processor::parse("p.toml", text).map_err(|error| error.to_string())
}

#[test]
fn every_built_in_processor_is_valid_and_has_its_name() {
    for (name, _) in BUILT_IN {
        let processor = Processor::load(name, Path::new(".")).unwrap();
        assert_eq!(processor.name, name);
    }
    let zen5 = Processor::load("zen5", Path::new(".")).unwrap();
    assert_eq!(zen5.core.window, 448);
    assert_eq!(zen5.class(UopClass::Multiply).latency, 3);
    assert_eq!(zen5.ports(PortGroup::Load), 4);
}

/// Only zen5 was measured; the others say so, and a file cannot claim a measurement without a word of it.
#[test]
fn a_file_that_was_never_measured_has_a_warning() {
    for (name, text) in BUILT_IN {
        let processor = Processor::parse(name, text).unwrap();
        assert_eq!(processor.doubt().is_some(), name != "zen5", "{name}");
        assert_eq!(processor.measured.is_none(), name != "zen5");
    }
    let zen4 = Processor::built_in("zen4").unwrap();
    let doubt = zen4.doubt().unwrap();
    assert!(doubt.contains("nobody measured the processor file zen4"));
    let text = BUILT_IN[1].1.replace("measured = false", "measured = true");
    let error = parse(&text).unwrap_err();
    assert!(error.contains("p.toml: measured = true"), "{error}");
}

/// Numbers of documents: widths and windows of LLVM's models, sizes of the makers' manuals.
#[test]
fn files_from_documents_have_their_numbers() {
    let of = |name| Processor::built_in(name).unwrap();
    for (name, dispatch, window, load, kib) in [
        ("zen3", 6, 256, 3, [32, 512, 32 << 10]),
        ("zen4", 6, 320, 3, [32, 1024, 32 << 10]),
        ("golden-cove", 6, 512, 3, [48, 2048, 60 << 10]),
    ] {
        let processor = of(name);
        assert_eq!(processor.core.dispatch, dispatch, "{name}");
        assert_eq!(processor.core.window, window, "{name}");
        assert_eq!(processor.ports(PortGroup::Load), load, "{name}");
        let sizes = processor
            .caches
            .levels
            .iter()
            .map(|level| level.bytes >> 10);
        assert_eq!(sizes.collect::<Vec<_>>(), kib, "{name}");
    }
    assert_eq!(of("zen3").level, 3);
    assert_eq!(of("golden-cove").class(UopClass::FpAdd).latency, 3);
    assert_eq!(of("zen3").class(UopClass::FpRootDouble).latency, 21);
    assert_eq!(of("zen4").caches.levels[2].cores, Some(8));
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = Processor::load("zen9", Path::new("."))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`zen9`") && error.contains("zen5"),
        "{error}"
    );
    let error = Processor::load("/no/such.toml", Path::new("."))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/no/such.toml"), "{error}");
}

#[test]
fn a_wrong_value_is_named_with_file_key_value_and_limit() {
    for (from, to, named) in [
        (
            "window = 448",
            "window = 8",
            "p.toml: core.window = 8 is out of range (16 to 4096)",
        ),
        ("window = 448", "window = 5000", "16 to 4096"),
        ("window = 448", "", "window"),
        ("window = 448", "window = -1", "window"),
        ("window = 448", "window = 448.5", "window"),
        ("window = 448", "window = 448\nfrobnicate = 1", "frobnicate"),
        (
            "lea = { latency = 2",
            "lea = { latency = 2000",
            "classes.lea.latency = 2000",
        ),
        ("lea = {", "leaf = {", "[classes] lacks `lea`"),
        (
            "lea = {",
            "leaf = { latency = 1 }\nlea = {",
            "unknown `leaf`",
        ),
        (
            "divide = 1",
            "divide = 0",
            "ports.divide = 0 is out of range (1 to 16)",
        ),
        ("name = \"zen5\"", "name = 5", "name"),
        (
            "l1d = { kib = 48,",
            "l1d = { kib = 50,",
            "caches.l1d.kib = 50 in 12 ways has no power of two of sets",
        ),
        (
            "l1d = { kib = 48,",
            "l1d = { kib = 3,",
            "caches.l1d.kib = 3 is out of range (4 to 1048576)",
        ),
        ("l3 = {", "l5 = {", "l5"),
        ("[tlb]", "[tlbs]", "tlb"),
        (
            "second = 4096",
            "second = 4000",
            "tlb.second = 4000 in 16 ways",
        ),
        (
            "walk = 44",
            "walk = 5",
            "tlb.walk = 5 is out of range (7 to 10000)",
        ),
        (
            "miss-ticks = 20000",
            "miss-ticks = 3000",
            "caches.memory.miss-ticks = 3000 is out of range (5500 to 1000000)",
        ),
        ("hidden = 200", "hidden = -2", "hidden"),
    ] {
        assert!(ZEN5.contains(from), "{from}");
        let error = parse(&ZEN5.replacen(from, to, 1)).unwrap_err();
        assert!(
            error.contains("p.toml") && error.contains(named),
            "{to}: {error}"
        );
    }
    let without: String = ZEN5
        .lines()
        .filter(|line| !line.starts_with("l3 = "))
        .map(|line| format!("{line}\n"))
        .collect();
    let error = parse(&without).unwrap_err();
    assert!(error.contains("[caches] has l4 and lacks `l3`"), "{error}");
    assert!(parse("").is_err());
    assert!(parse("\u{0}").is_err());
}

#[test]
fn levels_and_shared_paths_have_limits() {
    for (from, to, named) in [
        (
            "level = 4",
            "level = 5",
            "p.toml: level = 5 is out of range (1 to 4)",
        ),
        ("level = 4", "", "level"),
        (
            "miss-ticks = 3700, cores = 8",
            "miss-ticks = 3700, cores = 0",
            "caches.l3.cores = 0 is out of range (1 to 1024)",
        ),
        (
            "miss-ticks = 1400 }",
            "miss-ticks = 1400, cores = 2 }",
            "caches.l2.cores = 2 is out of range (1 to 1)",
        ),
        (
            "shared-ticks = 3300",
            "shared-ticks = 5501",
            "caches.memory.shared-ticks = 5501 is out of range (0 to 5500)",
        ),
    ] {
        let error = parse(&ZEN5.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(named), "{from} -> {to}: {error}");
    }
    let parsed = parse(&ZEN5.replace(", shared-ticks = 3300", "")).unwrap();
    assert_eq!(parsed.caches.beyond.shared_ticks, 0);
}
