//! From the options of a job to nodes, and the variables that Slurm sets in its script.
//!
//! A layout has room for all tasks of its job. Called by `belljar sbatch-script`.

use std::collections::BTreeMap;

use super::{BatchError, Job};

/// The request of one component of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// Nodes.
    pub nodes: Option<u32>,
    /// Tasks in all.
    pub tasks: Option<u32>,
    /// Tasks on each node.
    pub tasks_per_node: Option<u32>,
    /// Processors of each task.
    pub cpus_per_task: Option<u32>,
    /// Memory of each node, in MiB.
    pub memory: Option<u64>,
    /// Memory for each processor, in MiB.
    pub memory_per_cpu: Option<u64>,
}

/// Nodes with the resources of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchLayout {
    /// Nodes.
    pub nodes: u32,
    /// Tasks in all.
    pub tasks: u32,
    /// Tasks of a node.
    pub tasks_per_node: u32,
    /// Processors of a node.
    pub cpus: u32,
    /// Memory of a node in MiB; `None` if the job does not request it.
    pub memory: Option<u64>,
}

impl Component {
    /// The nodes of the component. Without options it has one task on each node, and enough nodes for its tasks.
    ///
    /// # Errors
    /// If its tasks do not fit.
    pub fn layout(&self) -> Result<BatchLayout, BatchError> {
        let by_nodes = self.nodes.zip(self.tasks);
        let each = self.tasks_per_node;
        let each = each.or(by_nodes.map(|(nodes, tasks)| tasks.div_ceil(nodes)));
        let each = each.unwrap_or(1);
        let nodes = self.nodes.or(self.tasks.map(|tasks| tasks.div_ceil(each)));
        let nodes = nodes.unwrap_or(1);
        let all = nodes.saturating_mul(each);
        let tasks = self.tasks.unwrap_or(all);
        if tasks > all {
            return Err(BatchError::Room { tasks, nodes, each });
        }
        let cpus = each.saturating_mul(self.cpus_per_task.unwrap_or(1));
        let of_cpus = self
            .memory_per_cpu
            .map(|mib| mib.saturating_mul(cpus.into()));
        Ok(BatchLayout {
            nodes,
            tasks,
            tasks_per_node: each,
            cpus,
            memory: self.memory.or(of_cpus),
        })
    }
}

impl Job {
    /// Nodes for all components at the same time; each is large enough for the largest component.
    ///
    /// # Errors
    /// If the tasks of a component do not fit.
    pub fn layout(&self) -> Result<BatchLayout, BatchError> {
        let mut whole = BatchLayout::default();
        for component in &self.components {
            let own = component.layout()?;
            whole.nodes = whole.nodes.saturating_add(own.nodes);
            whole.tasks = whole.tasks.saturating_add(own.tasks);
            whole.tasks_per_node = whole.tasks_per_node.max(own.tasks_per_node);
            whole.cpus = whole.cpus.max(own.cpus);
            whole.memory = whole.memory.max(own.memory);
        }
        Ok(whole)
    }

    /// The variables that Slurm sets in the script of this job called `name`, for previews. An array has the variables of its
    /// first task, a heterogeneous job those of its first component.
    ///
    /// # Errors
    /// If its tasks do not fit.
    pub fn variables(&self, name: &str) -> Result<BTreeMap<String, String>, BatchError> {
        let first = self.components.first().cloned().unwrap_or_default();
        let layout = first.layout()?;
        let nodes = match layout.nodes {
            1 => "node0".to_owned(),
            nodes => format!("node[0-{}]", nodes - 1),
        };
        let repeated = |value: u32| match layout.nodes {
            1 => value.to_string(),
            nodes => format!("{value}(x{nodes})"),
        };
        let mut all: BTreeMap<String, String> = self.exported.clone();
        let mut set = |name: &str, value: String| all.insert(name.to_owned(), value);
        set("SLURM_JOB_ID", "1".to_owned());
        set("SLURM_JOB_NAME", name.to_owned());
        set("SLURM_JOB_NODELIST", nodes);
        set("SLURM_JOB_NUM_NODES", layout.nodes.to_string());
        set("SLURM_NNODES", layout.nodes.to_string());
        set("SLURM_JOB_CPUS_PER_NODE", repeated(layout.cpus));
        set("SLURM_CPUS_ON_NODE", layout.cpus.to_string());
        set("SLURM_TASKS_PER_NODE", repeated(layout.tasks_per_node));
        if first.tasks.is_some() || first.tasks_per_node.is_some() {
            set("SLURM_NTASKS", layout.tasks.to_string());
        }
        if let Some(each) = first.tasks_per_node {
            set("SLURM_NTASKS_PER_NODE", each.to_string());
        }
        if let Some(each) = first.cpus_per_task {
            set("SLURM_CPUS_PER_TASK", each.to_string());
        }
        if let (Some(first), Some(last)) = (self.array.first(), self.array.last()) {
            set("SLURM_ARRAY_TASK_ID", first.to_string());
            set("SLURM_ARRAY_TASK_COUNT", self.array.len().to_string());
            set("SLURM_ARRAY_TASK_MIN", first.to_string());
            set("SLURM_ARRAY_TASK_MAX", last.to_string());
        }
        if self.components.len() > 1 {
            set("SLURM_HET_SIZE", self.components.len().to_string());
        }
        set("SLURM_NODEID", "0".to_owned());
        set("SLURMD_NODENAME", "node0".to_owned());
        set("SLURM_SUBMIT_DIR", "/root".to_owned());
        set("USER", "root".to_owned());
        Ok(all)
    }
}
