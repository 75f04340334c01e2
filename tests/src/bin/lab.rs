//! A lab controlled by lines of orders: `lab HOSTS PROGRAM`.
//!
//! | order | effect | answer |
//! |---|---|---|
//! | `links` | hosts communicate over the lab's links | `round-trip NANOSECONDS`, as measured |
//! | `wire MICROSECONDS` | hosts communicate over a wire with this delay of each packet | the same |
//! | `start ARGUMENT...` | starts `PROGRAM ARGUMENT...` on the head | `started` |
//! | `stop` | interrupts the last started program, as Ctrl-C does, and waits for its end | `exit STATUS` |
//!
//! The head is called `head`, the hosts `h0` and on; they have the files of this machine. The lab ends
//! with its input. If a lab is impossible, or an order fails, the last line on standard error is the
//! reason.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::env;
use std::error::Error;
use std::io;
use std::process::{Child, ExitCode, Stdio};
use std::time::Duration;

use belljar_tests::lab::{Lab, Wire, round_trip};

/// Echoes of one measurement, whose median is reported.
const ECHOES: usize = 501;

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let hosts = arguments.next().and_then(|count| count.parse().ok());
    let (Some(hosts), Some(program)) = (hosts, arguments.next()) else {
        eprintln!("usage: lab HOSTS PROGRAM");
        return ExitCode::FAILURE;
    };
    let Some(lab) = Lab::start(hosts) else {
        return ExitCode::FAILURE;
    };
    match obey(&lab, &program) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn obey(lab: &Lab, program: &str) -> Result<(), Box<dyn Error>> {
    let mut wire: Option<Wire> = None;
    let mut started: Option<Child> = None;
    println!("ready");
    for line in io::stdin().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["links"] => {
                drop(wire.take());
                tell_round_trip(lab)?;
            }
            ["wire", late] => {
                // Its devices are removed before the next ones are made.
                drop(wire.take());
                let late = Duration::from_secs_f64(late.parse::<f64>()? / 1e6);
                wire = Some(lab.wire(late)?);
                tell_round_trip(lab)?;
            }
            ["start", ref arguments @ ..] => {
                started = Some(start(lab, program, arguments)?);
                println!("started");
            }
            ["stop"] => {
                let child = started.take().ok_or("nothing was started")?;
                println!("exit {}", stop(lab, program, child)?);
            }
            _ => return Err(format!("there is no order {line:?}").into()),
        }
    }
    Ok(())
}

fn tell_round_trip(lab: &Lab) -> io::Result<()> {
    let median = match lab.hosts() {
        [] => Duration::ZERO,
        [first, ..] => round_trip(lab.head(), first, ECHOES)?,
    };
    println!("round-trip {}", median.as_nanos());
    Ok(())
}

fn start(lab: &Lab, program: &str, arguments: &[&str]) -> io::Result<Child> {
    let mut command = lab.head().command_in(lab.shared(), program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
}

fn stop(lab: &Lab, program: &str, child: Child) -> io::Result<i32> {
    // The process that entered the head's namespaces has the program as its child.
    lab.head().interrupt(program);
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines().filter(|line| !line.contains("interrupted")) {
        eprintln!("{line}");
    }
    Ok(output.status.code().unwrap_or(-1))
}
