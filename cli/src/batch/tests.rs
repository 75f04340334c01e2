//! Options of scripts, and the nodes that they make.

use super::*;

fn job(lines: &str) -> Result<Job, BatchError> {
    Job::parse("job.sh", &format!("#!/bin/bash\n{lines}\nsrun ./a.out\n"))
}

fn layout(lines: &str) -> Result<(u32, u32, u32), BatchError> {
    let layout = job(lines)?.layout()?;
    Ok((layout.nodes, layout.tasks, layout.tasks_per_node))
}

#[test]
fn options_are_read_in_all_spellings() {
    let lines = "#SBATCH --job-name=\"strong scaling\"\n# a word\n\n#SBATCH -N 2 -n8 # eight\n#SBATCH --mem 4G\n#SBATCH -p short,long -t 1:00:00\n\
                 #SBATCH --exclusive\n#SBATCH -C '[rack1|rack2]&ib*2' -L solver:2\necho\n#SBATCH -N 9";
    let job = job(lines).unwrap();
    assert_eq!(job.name.as_deref(), Some("strong scaling"));
    let layout = job.layout().unwrap();
    assert_eq!(
        (layout.nodes, layout.tasks, layout.tasks_per_node),
        (2, 8, 4)
    );
    assert_eq!((layout.cpus, layout.memory), (4, Some(4096)));
    assert_eq!(job.partitions, ["short", "long"]);
    assert_eq!(job.features, ["rack1", "rack2", "ib"]);
    assert_eq!(job.licenses, ["solver:2"]);
    let variables = job.variables("strong scaling").unwrap();
    assert_eq!(variables["SLURM_TASKS_PER_NODE"], "4(x2)");
    assert_eq!(variables["SLURM_JOB_NODELIST"], "node[0-1]");
    assert!(!variables.contains_key("SLURM_NTASKS_PER_NODE"));
}

#[test]
fn open_values_have_the_defaults_of_slurm() {
    assert_eq!(layout(""), Ok((1, 1, 1)));
    assert_eq!(layout("#SBATCH --ntasks=4"), Ok((4, 4, 1)));
    assert_eq!(layout("#SBATCH --nodes=1-3"), Ok((3, 3, 1)));
    let lines = "#SBATCH --ntasks-per-node=2\n#SBATCH -n 5";
    assert_eq!(layout(lines), Ok((3, 5, 2)));
    let lines = "#SBATCH --ntasks-per-node=2\n#SBATCH -n 5\n#SBATCH -N2";
    assert!(matches!(
        layout(lines),
        Err(BatchError::Room { tasks: 5, .. })
    ));
}

#[test]
fn memory_may_be_given_for_each_processor() {
    let lines = "#SBATCH -N 2 --ntasks-per-node=2 -c 2\n#SBATCH --mem-per-cpu=800M";
    assert_eq!(job(lines).unwrap().layout().unwrap().memory, Some(3200));
    assert_eq!(
        job("#SBATCH --mem=0").unwrap().layout().unwrap().memory,
        None
    );
}

#[test]
fn components_of_a_heterogeneous_job_have_nodes_of_their_own() {
    let lines =
        "#SBATCH -N 1 -n 1 --mem=2G\n#SBATCH hetjob\n#SBATCH -N 3 --ntasks-per-node=2 --mem=1G";
    let job = job(lines).unwrap();
    let layout = job.layout().unwrap();
    assert_eq!(
        (layout.nodes, layout.tasks, layout.tasks_per_node),
        (4, 7, 2)
    );
    assert_eq!(layout.memory, Some(2048));
    assert_eq!(job.variables("x").unwrap()["SLURM_HET_SIZE"], "2");
}

#[test]
fn tasks_of_arrays_are_numbers_and_ranges() {
    let of = |list: &str| job(&format!("#SBATCH --array={list}")).map(|job| job.array);
    assert_eq!(of("3-6"), Ok(vec![3, 4, 5, 6]));
    assert_eq!(of("0-8:4,1%2"), Ok(vec![0, 1, 4, 8]));
    for list in ["", "a", "5-", "1-2:0", "1-4000000000"] {
        assert!(of(list).is_err(), "{list}");
    }
    let variables = job("#SBATCH -a 3-6").unwrap().variables("x").unwrap();
    assert_eq!(variables["SLURM_ARRAY_TASK_ID"], "3");
    assert_eq!(variables["SLURM_ARRAY_TASK_COUNT"], "4");
}

#[test]
fn exported_variables_are_those_with_values() {
    let variables = job("#SBATCH --export=ALL,SOLVER=cg,LEVEL=3")
        .unwrap()
        .variables("x")
        .unwrap();
    assert_eq!((&*variables["SOLVER"], &*variables["LEVEL"]), ("cg", "3"));
    assert!(!variables.contains_key("ALL"));
}

#[test]
fn wrong_values_are_named_with_their_line() {
    let error = job("#SBATCH -n many").unwrap_err().to_string();
    assert_eq!(error, "line 2: -n many: write a number from 1");
    assert!(job("#SBATCH --mem=much").is_err());
    let error = job("#SBATCH --gres=gpu:4").unwrap_err().to_string();
    assert!(
        error.contains("line 2: --gres gpu:4: nodes have no such devices"),
        "{error}"
    );
    assert!(job("#SBATCH --gres=none").is_ok());
    assert!(Job::parse("job.sh", "srun x\n").is_err());
    let error = Job::parse("job.sh", "#!/bin/sh\nsrun x\r\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("line 2 ends with a DOS line break"),
        "{error}"
    );
    for hostile in [
        "#SBATCH",
        "#SBATCH =",
        "#SBATCH -\u{e9}x",
        "#SBATCH --mem=",
        "#SBATCH -N -",
        "#SBATCH \"open",
        "#SBATCH \\",
    ] {
        let _ = job(hostile).map(|job| job.layout());
    }
}

#[test]
fn words_are_divided_as_sbatch_divides_them() {
    let of = |line| split_words(line).join("|");
    assert_eq!(
        of(" -J 'a b'  --comment=\"it's # here\" x#y # end"),
        "-J|a b|--comment=it's # here|x#y"
    );
    assert_eq!(of("a\\ b '' \"\\\"\""), "a b||\"");
}
