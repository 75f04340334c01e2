//! Options as users of MPICH's and Open MPI's `mpirun` write them, in the form of this command's own.
//!
//! Only the words before the program are touched.

use std::ffi::OsString;

/// Options without a value.
const FLAGS: [&str; 8] = [
    "--dry-run",
    "--quiet",
    "-q",
    "--no-sandbox",
    "--allow-run-as-root",
    "--help",
    "-h",
    "--version",
];

/// The words of a command line, where it is one of `mpirun`, with its options in the plain form.
pub(crate) fn plain(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.into_iter().collect();
    // Options of every command may stand before its name.
    let all = |word: &&OsString| *word == "-q" || *word == "--quiet";
    let name = 1 + words.iter().skip(1).take_while(all).count();
    if words.get(name).is_none_or(|word| word != "mpirun") {
        return words;
    }
    let mut words = words.into_iter();
    let mut plain: Vec<OsString> = words.by_ref().take(name + 1).collect();
    while let Some(word) = words.next() {
        let Some(text) = word
            .to_str()
            .filter(|text| text.starts_with('-') && *text != "--")
        else {
            // The program, and what is its own.
            plain.push(word);
            break;
        };
        let name = match text {
            "-np" => "-n",
            "-ppn" | "-perhost" | "-npernode" | "-N" => "--ranks-per-node",
            "-f" | "-hostfile" | "-machinefile" | "--machinefile" => "--hostfile",
            "-genv" | "-env" | "-mca" | "--mca" => {
                // What Open MPI reads of its parameters in the environment.
                let mut pair = OsString::from(if text.ends_with("mca") {
                    "OMPI_MCA_"
                } else {
                    ""
                });
                pair.push(words.next().unwrap_or_default());
                pair.push("=");
                pair.push(words.next().unwrap_or_default());
                plain.extend(["-x".into(), pair]);
                continue;
            }
            other => other,
        };
        let has_own = FLAGS.contains(&name) || name.contains('=') || is_joined(name);
        plain.push(name.into());
        if !has_own {
            plain.extend(words.next());
        }
    }
    plain.extend(words);
    plain
}

/// Whether an option of one letter has its value right after it, as `-n4`.
fn is_joined(word: &str) -> bool {
    !word.starts_with("--") && word.len() > 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let words = text.split(' ').map(OsString::from);
        let plain: Vec<_> = plain(words)
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        plain.join(" ")
    }

    #[test]
    fn options_of_both_implementations_become_plain() {
        assert_eq!(
            of("belljar mpirun -np 4 -ppn 2 -genv A b -hostfile h ./a -np 3"),
            "belljar mpirun -n 4 --ranks-per-node 2 -x A=b --hostfile h ./a -np 3"
        );
        assert_eq!(
            of("belljar mpirun -n4 -q ./a -ppn 1"),
            "belljar mpirun -n4 -q ./a -ppn 1"
        );
        assert_eq!(
            of("belljar -q mpirun -np 4 ./a -np 3"),
            "belljar -q mpirun -n 4 ./a -np 3"
        );
        assert_eq!(of("belljar run -np 4"), "belljar run -np 4");
        assert_eq!(
            of("belljar mpirun --mca a b x"),
            "belljar mpirun -x OMPI_MCA_a=b x"
        );
        assert_eq!(of("belljar mpirun -np"), "belljar mpirun -n");
        assert_eq!(
            of("belljar mpirun --seed=1 -f h a"),
            "belljar mpirun --seed=1 --hostfile h a"
        );
    }
}
