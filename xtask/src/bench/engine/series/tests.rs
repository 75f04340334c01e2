use super::*;

fn step(name: &'static str, command: &str) -> MeasuredCommand {
    MeasuredCommand {
        name,
        command: command.to_owned(),
    }
}

fn skipped(name: &'static str, reason: &str) -> SkippedStep {
    SkippedStep {
        side: Side::Bare,
        name,
        reason: reason.to_owned(),
    }
}

#[test]
fn steps_over_their_limit_are_skipped_and_the_others_run() {
    let folder = tempfile::tempdir().unwrap();
    let bench = Bench {
        belljar: PathBuf::new(),
        image: PathBuf::new(),
        folder: folder.path().join("bench"),
    };
    fs::create_dir(&bench.folder).unwrap();
    let series = Series {
        bench: &bench,
        side: Side::Bare,
        level: "",
        limit: Duration::from_secs(1),
    };
    let steps = [
        step("first", "sh -c 'echo x >> first'"),
        step("endless", "sh -c 'echo x >> endless; exec sleep 1000'"),
        step("failing", "false"),
        step("last", "true"),
    ];
    let mut all = Vec::new();
    let seconds = series.run(&steps, &mut all).unwrap();
    assert_eq!(seconds.into_keys().collect::<Vec<_>>(), ["first", "last"]);
    let expected = [
        skipped("endless", "it takes more than 1 s"),
        skipped("failing", "it failed"),
    ];
    assert_eq!(all, expected);
    // Neither is run again.
    let again = series.run(&steps, &mut all).unwrap();
    assert_eq!(again.into_keys().collect::<Vec<_>>(), ["first", "last"]);
    assert_eq!(all, expected);
    let runs = |name: &str| {
        fs::read_to_string(bench.folder.join(name))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!((runs("first"), runs("endless")), (2, 1));
}

#[test]
fn a_step_that_is_stopped_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let steps = [step("endless", "sleep 1000")];
    shell
        .args(["-c", &ending_script(&steps)])
        .current_dir(folder.path())
        .stdout(Stdio::piped());
    let mut child = Owned(shell.spawn().unwrap());
    let mut output = child.0.stdout.take().unwrap();
    drop(child);
    // The pipe ends only with the last process that has it.
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(!text.contains(END), "{text}");
}
