//! Slurm's variables as jobs have them: valid ones and invalid ones.
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn job(variables: &[(&str, &str)]) -> Option<Result<Allocation, AllocationError>> {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let expand = |list: &str| Ok(list.split(',').map(str::to_owned).collect());
    Allocation::from_variables(|name| variables.get(name).map(|&v| v.to_owned()), expand)
}

const THREE: &[(&str, &str)] = &[
    ("SLURM_JOB_ID", "12"),
    ("SLURM_JOB_NODELIST", "a,b,c"),
    ("SLURM_JOB_CPUS_PER_NODE", "4(x2),2"),
];

fn three_and(more: &[(&str, &str)]) -> Result<Allocation, AllocationError> {
    job(&[THREE, more].concat()).unwrap()
}

fn memories(more: &[(&str, &str)]) -> Vec<Option<u64>> {
    let allocation = three_and(more).unwrap();
    allocation.hosts.iter().map(|host| host.memory).collect()
}

#[test]
fn outside_of_a_job_there_is_none() {
    assert!(job(&[("SLURM_JOB_NODELIST", "a")]).is_none());
}

#[test]
fn a_job_is_hosts_with_processors() {
    let allocation = three_and(&[]).unwrap();
    assert_eq!(allocation.job.to_string(), "12");
    let hosts: Vec<_> = allocation
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.cpus, host.memory))
        .collect();
    assert_eq!(hosts, [("a", 4, None), ("b", 4, None), ("c", 2, None)]);
}

#[test]
fn memory_is_promised_by_host_or_by_processor_or_not_at_all() {
    let (two, four, eight) = (Some(2 << 30), Some(4 << 30), Some(8 << 30));
    assert_eq!(memories(&[("SLURM_MEM_PER_NODE", "2048")]), [two; 3]);
    let per_cpu = [("SLURM_MEM_PER_CPU", "2048")];
    assert_eq!(memories(&per_cpu), [eight, eight, four]);
    assert_eq!(memories(&[("SLURM_MEM_PER_NODE", "0")]), [None; 3]);
}

#[test]
fn a_job_of_an_array_has_its_own_number_and_place() {
    let array = [("SLURM_ARRAY_JOB_ID", "11"), ("SLURM_ARRAY_TASK_ID", "3")];
    let job = three_and(&array).unwrap().job;
    assert_eq!((job.id, job.array), (12, Some((11, 3))));
    assert_eq!(job.to_string(), "11_3");
}

#[test]
fn contradictions_are_named() {
    let error = |more: &[(&str, &str)]| three_and(more).unwrap_err().to_string();
    assert!(error(&[("SLURM_JOB_ID", "x")]).contains("SLURM_JOB_ID"));
    assert!(error(&[("SLURM_JOB_CPUS_PER_NODE", "4(x2)")]).contains("2 hosts, and there are 3"));
    assert!(error(&[("SLURM_MEM_PER_NODE", "much")]).contains("much"));
    let absent = job(&THREE[..2]).unwrap().unwrap_err().to_string();
    assert!(
        absent.contains("SLURM_JOB_CPUS_PER_NODE is not"),
        "{absent}"
    );
}

#[test]
fn counts_that_are_none_are_refused() {
    for text in [
        "",
        ",",
        "4,",
        "0",
        "4(x0)",
        "4(x",
        "4(x)",
        "4x2",
        "+4",
        "-1",
        " 4 4",
        "4(x4294967296)",
        "4(x4294967295)",
        "99999999999",
        "4(x1)(x1)",
    ] {
        assert!(counts::parse(text, 1).is_err(), "{text:?}");
    }
    assert_eq!(counts::parse("72(x3),1", 4), Ok(vec![72, 72, 72, 1]));
}

#[test]
fn names_of_hosts_are_plain() {
    assert_eq!(named("n1\nn2.x\n").unwrap(), ["n1", "n2.x"]);
    for printed in ["", "\n", "a b\n", "--help\n", "a;b\n", "a\n\nb\n"] {
        assert!(named(printed).is_err(), "{printed:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_fail_badly(text in "[0-9x(),a ]{0,40}", hosts in 0_usize..9) {
        if let Ok(counts) = counts::parse(&text, hosts) {
            prop_assert_eq!(counts.len(), hosts);
            prop_assert!(counts.iter().all(|&count| count > 0));
        }
        let _ = named(&text);
    }
}
