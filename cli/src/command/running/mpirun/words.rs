//! Options as users of MPICH's and Open MPI's `mpirun` write them, in the form of this command's own.
//!
//! Only the words before the first program are touched. Options without effect and options that cannot be honoured become words of this
//! command, too, so that its parser sees all in order.

use std::ffi::{OsStr, OsString};

use belljar_cli::mpirun::request::options::{Meaning, meaning};
use belljar_cli::mpirun::request::{RequestError, ignored, pair};

/// Names of the command.
const NAMES: [&str; 2] = ["mpirun", "mpiexec"];
/// Values of Open MPI 5's `--output`, which then has no pattern of files.
const STREAMS: [&str; 7] = [
    "tag-detailed",
    "tag-fullname",
    "timestamp",
    "xml",
    "merge-stderr-to-stdout",
    "rank",
    "raw",
];

/// Converts the words of a `mpirun` command line into the plain form; other command lines stay as they are.
pub(crate) fn plain(
    words: impl IntoIterator<Item = OsString>,
    commands: &clap::Command,
) -> Vec<OsString> {
    let words: Vec<OsString> = words.into_iter().collect();
    // Global options may precede the subcommand.
    let all = |word: &&OsString| *word == "-q" || *word == "--quiet";
    let name = 1 + words.iter().skip(1).take_while(all).count();
    let is_ours = |word: &OsString| NAMES.iter().any(|name| word == name);
    if !words.get(name).is_some_and(is_ours) {
        return words;
    }
    let own = OwnOptions::of(commands);
    let mut words = words.into_iter();
    let mut plain: Vec<OsString> = words.by_ref().take(name).collect();
    words.next();
    plain.push("mpirun".into());
    while let Some(word) = words.next() {
        let Some(text) = word
            .to_str()
            .filter(|text| text.starts_with('-') && *text != "--")
        else {
            // The program and its arguments.
            plain.push(word);
            break;
        };
        option(text, &own, &mut words, &mut plain);
    }
    plain.extend(words);
    plain
}

/// Puts an option with its values into the plain form.
fn option(
    text: &str,
    own: &OwnOptions,
    words: &mut impl Iterator<Item = OsString>,
    plain: &mut Vec<OsString>,
) {
    let (name, joined) = match text.split_once('=').filter(|_| text.starts_with("--")) {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, None),
    };
    let mut joined = joined;
    let mut next = || joined.take().or_else(|| words.next());
    match meaning(name) {
        Some(Meaning::Spelling(name)) => {
            plain.push(name.into());
            plain.extend(next());
        }
        Some(Meaning::Words(words)) => plain.extend(words.iter().map(OsString::from)),
        Some(Meaning::Files) => {
            let files = lossy(next());
            let files = files.split(',');
            plain.extend(files.flat_map(|file| ["--file".into(), OsString::from(file)]));
        }
        Some(Meaning::Variable) => {
            plain.push("--genv".into());
            plain.push(pair(&mut || lossy(next())).into());
        }
        Some(Meaning::OwnVariable) => {
            plain.push("-x".into());
            plain.push(pair(&mut || lossy(next())).into());
        }
        Some(Meaning::List) => {
            let names = lossy(next());
            let names = names.split(',');
            plain.extend(names.flat_map(|name| ["-x".into(), OsString::from(name)]));
        }
        Some(Meaning::Parameter(start)) => {
            let name = lossy(next());
            let pair = format!("{start}{name}={}", lossy(next()));
            plain.extend(["--genv".into(), pair.into()]);
        }
        Some(Meaning::Ignored(count, why)) => {
            let values: Vec<String> = (0..count).map(|_| lossy(next())).collect();
            plain.extend(["--ignored".into(), ignored(name, &values, why).into()]);
        }
        Some(Meaning::Refused(instead)) => refuse(name, instead, plain),
        None if matches!(name, "--output" | "-output") => output(next(), plain),
        None => {
            plain.push(text.into());
            if text == name && own.takes_value(name) {
                plain.extend(next());
            }
        }
    }
}

fn refuse(option: &str, instead: &'static str, plain: &mut Vec<OsString>) {
    let option = option.to_owned();
    let why = RequestError::Refused { option, instead }.to_string();
    plain.extend(["--refused".into(), why.into()]);
}

/// `--output` has two meanings: files of nodes here, and marks on lines with Open MPI 5.
fn output(value: Option<OsString>, plain: &mut Vec<OsString>) {
    let text = lossy(value.clone());
    let of_launcher = |word: &str| {
        STREAMS.contains(&word) || word.starts_with("dir=") || word.starts_with("file=")
    };
    if text == "tag" {
        plain.push("--tag-output".into());
    } else if text.split([',', ':']).any(of_launcher) {
        let instead =
            "the run directory has stdout and stderr; --tag-output marks the lines of each rank";
        refuse(&format!("--output {text}"), instead, plain);
    } else {
        plain.push("--output".into());
        plain.extend(value);
    }
}

fn lossy(word: Option<OsString>) -> String {
    let text = |word: &OsStr| word.to_string_lossy().into_owned();
    word.as_deref().map(text).unwrap_or_default()
}

/// Options of this command itself.
struct OwnOptions(Vec<String>);

impl OwnOptions {
    /// Lists the options of `mpirun` that take a value, among all commands of `belljar`.
    fn of(all: &clap::Command) -> Self {
        let mpirun = all.find_subcommand(NAMES[0]).into_iter();
        let arguments = mpirun.flat_map(clap::Command::get_arguments);
        let with_value = arguments.filter(|one| one.get_action().takes_values());
        let names = with_value.flat_map(|one| {
            let long = one.get_long().map(|long| format!("--{long}"));
            let short = one.get_short().map(|short| format!("-{short}"));
            let more = one.get_all_aliases().unwrap_or_default();
            let more = more.into_iter().map(|name| format!("--{name}"));
            long.into_iter()
                .chain(short)
                .chain(more)
                .collect::<Vec<_>>()
        });
        Self(names.collect())
    }

    fn takes_value(&self, name: &str) -> bool {
        self.0.iter().any(|own| own == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let words = text.split(' ').map(OsString::from);
        let plain: Vec<_> = plain(
            words,
            &<crate::Arguments as clap::CommandFactory>::command(),
        )
        .into_iter()
        .map(|word| word.into_string().unwrap())
        .collect();
        plain.join(" ")
    }

    #[test]
    fn options_of_both_implementations_become_plain() {
        for (written, plain) in [
            (
                "belljar mpirun -np 4 -ppn 2 -genv A b -hostfile h ./a -np 3",
                "belljar mpirun -n 4 --ranks-per-node 2 --genv A=b --hostfile h ./a -np 3",
            ),
            (
                "belljar mpirun -n4 -q ./a -ppn 1",
                "belljar mpirun -n4 -q ./a -ppn 1",
            ),
            (
                "belljar -q mpirun -np 4 ./a -np 3",
                "belljar -q mpirun -n 4 ./a -np 3",
            ),
            ("belljar run -np 4", "belljar run -np 4"),
            (
                "belljar mpirun --mca a b x",
                "belljar mpirun --genv OMPI_MCA_a=b x",
            ),
            ("belljar mpirun -np", "belljar mpirun -n"),
            (
                "belljar mpirun --seed=1 -f h a",
                "belljar mpirun --seed=1 --hostfile h a",
            ),
            (
                "belljar mpiexec -machinefile m -l a",
                "belljar mpirun --hostfile m --tag-output a",
            ),
            (
                "belljar mpirun -env A b -env C=d a -env",
                "belljar mpirun -x A=b -x C=d a -env",
            ),
            (
                "belljar mpirun -H a,b --bynode a",
                "belljar mpirun --host a,b --map-by node a",
            ),
            (
                "belljar mpirun --map-by=node --report a b",
                "belljar mpirun --map-by node --report a b",
            ),
            (
                "belljar mpirun --progress a -np 2",
                "belljar mpirun --progress a -np 2",
            ),
            (
                "belljar mpirun --output *.dat a",
                "belljar mpirun --output *.dat a",
            ),
            (
                "belljar mpirun --output tag a",
                "belljar mpirun --tag-output a",
            ),
            (
                "belljar mpirun --preload-files a,b c",
                "belljar mpirun --file a --file b c",
            ),
            (
                "belljar mpirun --memory 1GiB -genvlist A,B c",
                "belljar mpirun --memory 1GiB -x A -x B c",
            ),
        ] {
            assert_eq!(of(written), plain);
        }
    }

    #[test]
    fn options_without_effect_and_refused_ones_are_named() {
        let words = of("belljar mpirun --bind-to core -np 2 ./a --bind-to x");
        assert!(
            words.starts_with("belljar mpirun --ignored --bind-to core changes nothing: the "),
            "{words}"
        );
        assert!(words.ends_with(" -n 2 ./a --bind-to x"), "{words}");
        let words = of("belljar mpirun --timestamp-output ./a");
        let start = "belljar mpirun --refused --timestamp-output has no counterpart on nodes: ";
        assert!(words.starts_with(start), "{words}");
        let words = of("belljar mpirun --output dir=x ./a");
        assert!(
            words.contains("--refused --output dir=x has no counterpart"),
            "{words}"
        );
    }
}
