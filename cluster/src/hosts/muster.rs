//! Finding a run's hosts and starting agents on them.
//!
//! All hosts are connected, or none: after an error no agent remains. All agents run the same build of
//! the program. Called by `belljar run`, which keeps the agents until the run has ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use belljar_launch::{Agent, AgentCommand, Launch, LaunchError, Local, Srun, Ssh, end_all};
use belljar_peers::{KeyError, Mesh, PeerError, RunKey, Settings};
use belljar_sim::CodecError;

use super::bootstrap::{Company, Greeting, Introduction, line};
use super::exchange::{Exchange, HEAD};
use super::list::{HostList, HostListError, StartMethod, own_capacity};
use super::partition::Partition;
use super::placement::{Capacity, PlacementError, place_nodes};
use super::provision::{self, Given, ProvisionError};
use crate::plan::Plan;
use crate::plan::nodes::template;
use crate::scenario::Hosts;

/// Time limit for starting and connecting hosts.
const GATHERING: Duration = Duration::from_secs(60);
/// Time limit of one wait, between checks for a stop.
const LISTENING: Duration = Duration::from_millis(100);
/// Time that agents have to end after a run.
const FAREWELL: Duration = Duration::from_secs(5);

/// Errors of gathering a run's hosts.
#[derive(Debug, thiserror::Error)]
pub enum MusterError {
    /// The list of hosts is invalid.
    #[error(transparent)]
    List(#[from] HostListError),
    /// An agent cannot be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An agent's greeting is invalid.
    #[error("host {host}: {why}")]
    Agent {
        /// Its name.
        host: String,
        /// The reason.
        why: String,
    },
    /// This host lacks a resource.
    #[error("this host: {0}")]
    Io(#[from] io::Error),
    /// No key could be made.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The hosts cannot connect.
    #[error("{source} ({hosts})")]
    Peers {
        /// The reason.
        source: PeerError,
        /// Their numbers and names.
        hosts: String,
    },
    /// The nodes do not fit onto the hosts.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A host does not receive its files.
    #[error(transparent)]
    Provision(#[from] ProvisionError),
    /// It was called off.
    #[error("interrupted")]
    Cancelled,
}

/// The hosts of a scenario, and the method to start agents there.
pub struct Muster {
    list: HostList,
    launch: Box<dyn Launch>,
    patience: Duration,
}

impl Muster {
    /// The hosts that `hosts` requests; `None` if only this one is.
    ///
    /// # Errors
    /// See [`HostListError`].
    pub fn of(hosts: &Hosts) -> Result<Option<Self>, HostListError> {
        let Some(list) = HostList::of(hosts)? else {
            return Ok(None);
        };
        let launch: Box<dyn Launch> = match list.way() {
            StartMethod::Local => Box::new(Local::default()),
            StartMethod::Ssh => Box::new(Ssh::default()),
            StartMethod::Slurm(job) => Box::new(Srun::of(job)),
        };
        Ok(Some(Self {
            list,
            launch,
            patience: hosts.patience(),
        }))
    }

    /// Starts an agent on each of the other hosts and connects all of them.
    ///
    /// # Errors
    /// See [`MusterError`]; then no agent remains.
    pub fn gather(self, stop: &AtomicBool) -> Result<GatheredHosts, MusterError> {
        let key = RunKey::generate()?;
        let mut agents = Agents(self.start(&key)?);
        let list = &self.list;
        let mut capacities = vec![list.granted(own_capacity(&list.names()[0]))];
        let mut addresses = vec![String::new()];
        let build = template::build();
        for (agent, address) in agents.0.iter_mut().zip(list.addresses().skip(1)) {
            let greeting = greet(agent, &build, stop)?;
            addresses.push(format!("{address}:{}", greeting.port));
            capacities.push(list.granted(greeting.capacity(agent.host())));
        }
        let company = Company {
            addresses,
            gathering_ms: GATHERING.as_millis() as u64,
            patience_ms: self.patience.as_millis() as u64,
        };
        for agent in &agents.0 {
            // The loss of an agent that has ended is noticed later.
            let _ = agent.send(&line(&company)?);
        }
        let settings = Settings {
            gathering: GATHERING,
            patience: self.patience,
        };
        let mesh = Mesh::connect(HEAD, &key, None, &company.addresses, settings, stop);
        let mesh = mesh.map_err(|source| MusterError::Peers {
            source,
            hosts: numbered(list.names()),
        })?;
        Ok(GatheredHosts {
            mesh,
            agents,
            capacities,
            takes_part: list.takes_part(),
        })
    }

    /// Starts all agents at once.
    fn start(&self, key: &RunKey) -> Result<Vec<Agent>, MusterError> {
        let command = AgentCommand {
            program: std::env::current_exe()?,
            arguments: vec!["agent".to_owned()],
        };
        let start = |number: u32, name: &str| {
            let agent = self.launch.start(name, &command)?;
            // The loss of an agent that has ended is noticed later.
            let _ = agent.send(&line(&Introduction::new(key, number))?);
            Ok(agent)
        };
        let start = &start;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(self.list.names())
                .skip(1)
                .map(|(number, name)| scope.spawn(move || start(number, name)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            // All threads are joined before the first error is returned.
            let all: Vec<Result<Agent, MusterError>> = joined.collect();
            all.into_iter().collect()
        })
    }
}

/// The scenario's text with the engine chosen here, as all hosts must use the same.
fn with_engine(text: &str, plan: &Plan) -> Result<String, CodecError> {
    let failed = |why: String| CodecError::Encode(why);
    let mut table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| failed(error.to_string()))?;
    table.insert("engine".to_owned(), plan.engine.name().into());
    toml::to_string(&table).map_err(|error| failed(error.to_string()))
}

fn numbered(names: &[String]) -> String {
    let each = names.iter().enumerate().skip(1);
    let each: Vec<String> = each
        .map(|(number, name)| format!("host {number} is {name}"))
        .collect();
    each.join(", ")
}

/// An agent's greeting; other lines, such as a login's message of the day, are skipped.
fn greet(agent: &mut Agent, build: &str, stop: &AtomicBool) -> Result<Greeting, MusterError> {
    let host = agent.host().to_owned();
    let fail = |why: String| MusterError::Agent {
        host: host.clone(),
        why,
    };
    let tries = GATHERING.as_millis() / LISTENING.as_millis();
    for _ in 0..tries {
        if stop.load(Ordering::Relaxed) {
            return Err(MusterError::Cancelled);
        }
        match agent.lines().recv_timeout(LISTENING) {
            Ok(line) => match Greeting::parse(&line) {
                Some(greeting) if greeting.build == build => return Ok(greeting),
                Some(_) => {
                    let why = "its belljar is another build; install the same build on all hosts";
                    return Err(fail(why.to_owned()));
                }
                None => tracing::info!("{host}: {line}"),
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let exit = agent.end(FAREWELL);
                return Err(fail(format!("its agent did not start: {exit}")));
            }
        }
    }
    Err(fail(format!(
        "its agent sent nothing for {} s",
        GATHERING.as_secs()
    )))
}

/// The agents of a run; dropping them ends them.
pub struct Agents(Vec<Agent>);

impl Drop for Agents {
    fn drop(&mut self) {
        end_all(&mut self.0, FAREWELL);
    }
}

/// Connected hosts that await their tasks.
pub struct GatheredHosts {
    mesh: Mesh,
    agents: Agents,
    capacities: Vec<Capacity>,
    takes_part: bool,
}

impl GatheredHosts {
    /// Places the nodes of `plan` and sends the hosts their tasks and files. Returns this host's part,
    /// and the agents, which end when they are dropped.
    ///
    /// # Errors
    /// See [`MusterError`].
    pub fn hand_out(
        self,
        plan: &Plan,
        wishes: &Hosts,
        given: Given,
        stop: &AtomicBool,
    ) -> Result<(Exchange, Agents), MusterError> {
        let partition = Partition::new(
            self.capacities
                .iter()
                .map(|host| host.name.clone())
                .collect(),
            self.place(plan, wishes)?,
        );
        let scenario = with_engine(&given.scenario, plan).map_err(ProvisionError::from)?;
        let given = Given { scenario, ..given };
        let task = provision::task(plan, given, partition.clone())?;
        let early = provision::hand_out(&self.mesh, &task, stop)?;
        let mut exchange = Exchange::new(self.mesh, Arc::new(partition), HEAD);
        for (peer, message) in early {
            exchange.hold(peer, message);
        }
        Ok((exchange, self.agents))
    }

    fn place(&self, plan: &Plan, wishes: &Hosts) -> Result<Vec<u32>, PlacementError> {
        let first = usize::from(!self.takes_part);
        let mut placed = place_nodes(plan, &self.capacities[first..], wishes)?;
        placed.iter_mut().for_each(|host| *host += first as u32);
        Ok(placed)
    }
}
