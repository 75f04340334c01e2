//! Run directories with damage in data that a resumed run needs.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use belljar_tests::{Dir, Outcome};

/// The numbers of the last two checkpoints in a run directory.
fn last_two(folder: &Path) -> (u32, u32) {
    let files = fs::read_dir(folder.join("checkpoint")).expect("the folder is there");
    let names = files.map(|entry| entry.expect("an entry").file_name());
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.to_str()?.strip_suffix(".checkpoint")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    // Two, or three: a run that is killed between making one and removing the oldest leaves it.
    let ([.., before, last], 2..=3) = (&numbers[..], numbers.len()) else {
        panic!("there are checkpoints {numbers:?}, not two or three");
    };
    (*before, *last)
}

/// Flips a bit at some place of a file.
fn flip(path: &Path, seed: u64) {
    let file = fs::File::options().read(true).write(true).open(path);
    let file = file.expect("the file is there");
    let length = file.metadata().expect("a file").len();
    let at = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % length;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("a file");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("a file");
}

/// The contents of all continuously written files of a run, and of its checkpoints except their
/// base.
fn written(dir: &Dir, out: &str) -> Vec<(String, Vec<u8>)> {
    let outcome = dir.outcome(out);
    let names = outcome.files().into_iter();
    let names = names.filter(|name| !name.ends_with(".snapshot") && !name.ends_with(".sock"));
    names
        .map(|name| (name.clone(), outcome.bytes(&name)))
        .collect()
}

/// Damages a file in a run directory.
type Damage = fn(&Path);

/// Damage that no checkpoint of a run survives, with the error.
const DAMAGES: [(&str, Damage); 3] = [
    ("node0.log has 9 bytes and had", |folder| {
        shorten(&folder.join("console/node0.log"), 9);
    }),
    ("base.snapshot is damaged", |folder| {
        for seed in 1..9 {
            flip(&folder.join("checkpoint/base.snapshot"), seed);
        }
    }),
    ("pages is shorter than it was", |folder| {
        for entry in fs::read_dir(folder.join("checkpoint")).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.extension() == Some("pages".as_ref()) {
                shorten(&path, 4095);
            }
        }
    }),
];

fn shorten(path: &Path, length: u64) {
    let file = fs::File::options().write(true).open(path);
    file.and_then(|file| file.set_len(length))
        .expect("the file is there");
}

/// Resumes runs from copies of `broken` with various damage. Some of it spoils only the last
/// checkpoint, some also the one before. `whole` is the expected result.
pub(super) fn go_on_from_damaged(dir: &Dir, broken: &Path, whole: &Outcome) {
    let (before, last) = last_two(broken);
    let copy = |out: &str| {
        let to = dir.path(&format!("{out}.incomplete"));
        let copied = Command::new("cp").arg("-a").arg(broken).arg(&to).status();
        assert!(copied.is_ok_and(|status| status.success()));
        to
    };
    let record = format!("checkpoint/{last}.checkpoint");
    let length = fs::metadata(broken.join(&record)).expect("the file is there");
    shorten(&copy("record").join(record), length.len() - 1);
    // Every page of the newest pack is one of the newest checkpoint.
    let pack = format!("checkpoint/{last}.pages");
    flip(&copy("pages").join(&pack), 8);
    flip(&copy("apart").join(&pack), 9);
    let apart: &[&str] = &["--launch", "local", "--hosts", "one,two"];
    for (out, why, more) in [
        ("record", "it ends too early", &[][..]),
        ("pages", "another checksum", &[]),
        ("apart", "another checksum", apart),
    ] {
        let (_, said, code) = dir.call(&[&["resume", out, "--threads", "2"], more].concat());
        assert_eq!(code, Some(0), "{said}");
        let refused = format!("checkpoint {last} is not usable");
        let from = format!("continuing from checkpoint {before} at");
        for words in [&refused, why, &from] {
            assert!(said.contains(words), "{said}");
        }
        whole.assert_same(&dir.outcome(out));
    }
    for (number, (what, damage)) in DAMAGES.into_iter().enumerate() {
        let out = format!("none{number}");
        damage(&copy(&out));
        let left = written(dir, &out);
        let (_, error, code) = dir.call(&["resume", &out, "--quiet"]);
        assert!(code == Some(1) && error.contains(what), "{error}");
        for each in [format!("({last}: "), format!("; {before}: ")] {
            assert!(error.contains(&each), "{error}");
        }
        assert!(left == written(dir, &out), "{what}: files are others");
    }
}
