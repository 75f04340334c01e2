use std::path::Path;
use std::sync::Arc;

use belljar_simulate::{JobTraffic, Machine, RankFlow, simulate};

use super::combinations::of;
use super::*;

const MIX: &str = r#"
name = "test"
hosts = 8
scheduler = ["fcfs", "easy"]
selection = "random"

[network]
topology = "fat-tree"
children = [4, 2]
parents = [1, 2]
bandwidth = ["1 Gb/s", "10 Gb/s", "100 Gb/s"]

[[jobs]]
name = "ring"
count = 20
ranks = [2, 4]
arrival = { between = { distribution = "exponential", mean = "10 s" } }
duration = { distribution = "weibull", scale = "30 s", shape = 0.8 }
estimate = 2
traffic = { pattern = "ring", rate = "1 Gb/s" }
"#;

fn all(text: &str) -> Result<Vec<Combination>, MixFileError> {
    Ok(of(text.parse().unwrap())?.iter().collect())
}

/// Has the traffic of one trace.
struct One;

impl TrafficProvider for One {
    fn traffic(&mut self, directory: &Path) -> Result<TracedTraffic, String> {
        match directory.ends_with("cg") {
            true => Ok(TracedTraffic {
                ranks: 4,
                run: 0,
                duration: 5_000_000_000,
                traffic: Arc::new(JobTraffic {
                    flows: vec![RankFlow {
                        from: 0,
                        to: 3,
                        rate: 7,
                    }],
                }),
            }),
            false => Err("there is none".to_owned()),
        }
    }
}

fn jobs(text: &str) -> Result<(Vec<Job>, Vec<String>), MixFileError> {
    let path = Path::new("mix.toml");
    Mix::of(path, &all(text)?[0])?.jobs(path, &mut One)
}

#[test]
fn lists_stand_for_all_their_values() {
    let all = all(MIX).unwrap();
    assert_eq!(all.len(), 12);
    let values: Vec<&str> = all[7]
        .values
        .iter()
        .map(|(_, value)| value.as_str())
        .collect();
    let keys: Vec<&str> = all[7].values.iter().map(|(key, _)| key.as_str()).collect();
    // In the order of keys in the table, the last one fastest. A value that is a list itself
    // stays unchanged.
    assert_eq!(keys, ["jobs.0.ranks", "network.bandwidth", "scheduler"]);
    assert_eq!(values, ["4", "1 Gb/s", "easy"]);
    let mix = Mix::of(Path::new("mix.toml"), &all[7]).unwrap();
    assert_eq!((mix.scheduler.as_str(), mix.hosts), ("easy", 8));
    let (topology, _) = mix.machine(Path::new("mix.toml")).unwrap();
    assert_eq!((topology.hosts(), topology.switches().len()), (8, 4));
    assert_eq!(topology.links()[0].spec.bandwidth, 1_000_000_000);
}

#[test]
fn the_same_mix_gives_the_same_jobs_and_they_run() {
    let path = Path::new("mix.toml");
    let mix = Mix::of(path, &all(MIX).unwrap()[0]).unwrap();
    let (jobs, said) = mix.jobs(path, &mut One).unwrap();
    assert_eq!((jobs.len(), said.len()), (20, 0));
    assert!(
        jobs.iter()
            .all(|job| job.ranks == 2 && job.estimate / 2 - job.duration < 2)
    );
    assert!(jobs.is_sorted_by_key(|job| job.arrival));
    assert_eq!(jobs, mix.jobs(path, &mut One).unwrap().0);
    let (topology, settings) = mix.machine(path).unwrap();
    let machine = Machine {
        topology: &topology,
        slots: 1,
        snapshots: &[],
    };
    let run = || {
        let policies = mix.policies(&topology, &settings).unwrap();
        simulate(machine, &jobs, policies, |_| true).unwrap()
    };
    let one = run();
    assert!(one.jobs.iter().all(|job| job.end.is_some()));
    assert_eq!(one, run());
}

#[test]
fn a_trace_says_ranks_length_and_traffic() {
    let group =
        "name = \"t\"\nhosts = 8\n[[jobs]]\nname = \"cg\"\ntraffic = { trace = \"runs/NAME\" }\n";
    let (jobs, _) = jobs(&group.replace("NAME", "cg")).unwrap();
    assert_eq!((jobs[0].ranks, jobs[0].duration), (4, 5_000_000_000));
    assert_eq!(jobs[0].traffic.rate(), 7);
    let error = super::tests::jobs(&group.replace("NAME", "other")).unwrap_err();
    assert!(
        error.to_string().contains("runs/other: there is none"),
        "{error}"
    );
}

#[test]
fn what_is_wrong_is_told() {
    let head = "name = \"t\"\nhosts = 8\n";
    let group = "[[jobs]]\nname = \"a\"\nranks = 2\nduration = \"1 s\"\n";
    for (text, told) in [
        (format!("{head}pace = 3\n{group}"), "unknown key `pace`"),
        (
            format!("{head}scheduler = []\n{group}"),
            "scheduler is an empty list",
        ),
        (head.to_owned(), "jobs is empty"),
        (format!("name = \"t\"\nhosts = 0\n{group}"), "hosts is 0"),
        (
            format!("{head}[[jobs]]\nname = \"a\"\nduration = \"1 s\"\n"),
            "jobs a: ranks is absent",
        ),
        (
            format!("{head}[[jobs]]\nname = \"a\"\nranks = 2\n"),
            "jobs a: duration is absent",
        ),
        (
            format!("{head}{group}estimate = 0.5\n"),
            "jobs a: estimate is 0.5",
        ),
        (
            format!("{head}{group}traffic = {{ pattern = \"ring\" }}\n"),
            "traffic.rate is absent",
        ),
        (
            format!("{head}{group}traffic = {{ pattern = \"knot\", rate = \"1 Gb/s\" }}\n"),
            "traffic.pattern is knot",
        ),
        (
            format!("{head}[log]\nfile = \"nowhere.swf\"\n"),
            "nowhere.swf: cannot be read",
        ),
    ] {
        let error = jobs(&text).unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    let many = many.join(", ");
    let text = format!("{head}seed = [{many}]\nranks-per-host = [{many}]\n{group}");
    assert!(
        all(&text)
            .unwrap_err()
            .to_string()
            .contains("10201 combinations")
    );
    let mix = Mix::of(
        Path::new("m"),
        &all(&format!(
            "{head}selection = \"best\"\nnetwork.bandwidth = \"1 Gb/s\"\n{group}"
        ))
        .unwrap()[0],
    )
    .unwrap();
    let (topology, settings) = mix.machine(Path::new("m")).unwrap();
    let error = mix
        .policies(&topology, &settings)
        .err()
        .map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains("selection is best")));
}
