//! Starts agents as a run does, for tests: `launcher srun|ssh HOST,... PROGRAM [ARGUMENT]...`.
//!
//! Its input goes to all agents; the end of the input ends them. It prints `HOST line TEXT`
//! for each line and `HOST exit HOW` for each end.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use belljar_launch::{Agent, AgentCommand, Allocation, Launch, Srun, Ssh};

/// Interval of checks of agents' lines, ends and orders.
const TURN: Duration = Duration::from_millis(20);
/// Time that agents have to end by themselves.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().expect("an argument");
    let way: Box<dyn Launch> = match next().as_str() {
        "srun" => {
            let allocation = Allocation::from_environment().expect("a job");
            let allocation = allocation.expect("a job that makes sense");
            println!("job of {} hosts", allocation.hosts.len());
            Box::new(Srun::of(allocation.job))
        }
        _ => Box::new(Ssh {
            keepalive: Duration::from_secs(1),
            silence: Duration::from_secs(3),
            timeout: Duration::from_secs(30),
            ..Ssh::default()
        }),
    };
    let hosts = next();
    let agent = AgentCommand {
        program: next().into(),
        arguments: arguments.collect(),
    };
    let started: Result<Vec<Agent>, _> = hosts
        .split(',')
        .map(|host| way.start(host, &agent))
        .collect();
    match started {
        Ok(agents) => carry(agents),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Passes orders to all agents and prints their lines, until all have ended.
fn carry(agents: Vec<Agent>) {
    let (orders, threads): (Vec<_>, Vec<_>) = agents
        .into_iter()
        .map(|agent| {
            let (order, orders) = std::sync::mpsc::channel::<String>();
            (order, thread::spawn(move || follow(agent, &orders)))
        })
        .unzip();
    thread::spawn(move || {
        for line in io::stdin().lines() {
            let line = line.expect("orders are text");
            // An agent that has ended accepts no order.
            orders.iter().for_each(|to| drop(to.send(line.clone())));
        }
    });
    for thread in threads {
        thread.join().expect("nothing goes wrong");
    }
}

fn follow(mut agent: Agent, orders: &Receiver<String>) {
    let host = agent.host().to_owned();
    loop {
        match agent.lines().recv_timeout(TURN) {
            Ok(line) => {
                println!("{host} line {line}");
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(TURN),
        }
        if let Some(exit) = agent.exit() {
            println!("{host} exit {exit:?}");
            return;
        }
        match orders.try_recv() {
            Ok(order) => drop(agent.send(format!("{order}\n").as_bytes())),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let exit = agent.end(PATIENCE);
                println!("{host} exit {exit:?}");
                return;
            }
        }
    }
}
