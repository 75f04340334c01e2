//! Several physical hosts, in a lab: Slurm and ssh, agents on them, jobs.

mod jobs;
mod lab;
mod launch;
mod run;
mod site;
