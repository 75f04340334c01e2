//! Messages of guests with memory contents as in UCX and Open MPI.

use std::sync::Arc;

use belljar_trace::{Probe, ProbeAt, ValueKind};

use super::*;
use crate::guest::memory::GuestMemory;
use crate::guest::registers::RSP;
use crate::interception::targets::{Target, Targets};
use crate::node::NodeTracer;
use crate::scripted::{HEAP, Pages, STACK};
use crate::selection::Selection;

const BACK: u64 = 0x40_1000;

/// A guest whose probe number `n` is for `PURPOSES[n]`.
struct Guest {
    tracer: NodeTracer,
    memory: Pages,
    registers: MagicRegisters,
}

const PURPOSES: [ProbePurpose; 7] = [
    ProbePurpose::UcxAddress,
    ProbePurpose::UcxEndpoint,
    ProbePurpose::UcxSend,
    ProbePurpose::OpenMpiSend,
    ProbePurpose::OpenMpiIsend,
    ProbePurpose::OpenMpiPrepare,
    ProbePurpose::OpenMpiStart,
];

fn probe(purpose: ProbePurpose) -> Probe {
    let kinds = MESSAGE.map(|(.., kind)| kind).to_vec();
    let (at, arguments) = match purpose {
        _ if purpose.is_message() => (ProbeAt::Entry, kinds),
        ProbePurpose::OpenMpiPrepare => {
            let kinds = kinds.into_iter().chain([ValueKind::Pointer]);
            (ProbeAt::Call, kinds.collect())
        }
        ProbePurpose::UcxEndpoint => (ProbeAt::Call, vec![ValueKind::Pointer; 2]),
        _ => (ProbeAt::Call, vec![ValueKind::Pointer]),
    };
    Probe {
        name: "x".to_owned(),
        file: "y".to_owned(),
        at,
        arguments,
        result: None,
        purpose,
    }
}

impl Guest {
    fn new() -> Self {
        let mut tracer = NodeTracer::new(0, &Selection::default());
        tracer.set_targets(Arc::new(Targets::with_own(vec![Target::Own; 7])));
        tracer.set_own_probes(PURPOSES.map(probe).into());
        tracer.watch_returns();
        let mut memory = Pages::default();
        memory.map(STACK - 0x4000, 0x8000);
        memory.map(HEAP, 0x4000);
        let mut registers = MagicRegisters {
            cr3: 0x1000,
            fs_base: 0x7000,
            ..MagicRegisters::default()
        };
        registers.gpr[RSP] = STACK - 0x100;
        Self {
            tracer,
            memory,
            registers,
        }
    }

    fn put(&mut self, at: u64, words: &[u64]) {
        for (at, word) in (at..).step_by(8).zip(words) {
            self.memory.write(at, &word.to_le_bytes()).unwrap();
        }
    }

    /// Makes a call with these arguments, and returns its records' words.
    fn call(&mut self, purpose: ProbePurpose, arguments: &[u64]) -> Vec<Vec<Option<u64>>> {
        let number = PURPOSES.iter().position(|own| *own == purpose).unwrap();
        for (register, word) in ARGUMENT_REGISTERS.into_iter().zip(arguments) {
            self.registers.gpr[register] = *word;
        }
        let slot = STACK - 0x100 - 8;
        self.registers.gpr[RSP] = slot;
        self.put(slot, &[BACK]);
        self.put(slot + 8, arguments.get(6..).unwrap_or_default());
        let (tracer, registers) = (&mut self.tracer, self.registers);
        tracer.probe(100, 0, number as u32, &registers, &mut self.memory);
        // Known names are part of a checkpoint.
        let mut again = self.tracer.reborn();
        again.set_targets(self.tracer.targets.clone());
        again.set_own_probes(PURPOSES.map(probe).into());
        again.watch_returns();
        self.tracer = again;
        self.registers.gpr[RSP] = slot + 8;
        self.registers.gpr[RAX] = 0;
        self.registers.rip = BACK;
        self.tracer.returned(120, &self.registers, &self.memory);
        let records = self.tracer.take_probe_records();
        let words = |record: &ProbeRecord| record.arguments.iter().map(ProbeValue::word).collect();
        records.iter().map(words).collect()
    }
}

#[test]
fn ucx_tells_whom_endpoints_lead_to_and_what_is_sent() {
    let mut guest = Guest::new();
    let (own, other, parameters, out) = (HEAP, HEAP + 0x100, HEAP + 0x200, HEAP + 0x300);
    // A byte of version 1 with the flag that a UUID follows.
    let address = |uuid: u64| [0x20 | uuid << 8, uuid >> 56];
    guest.put(own, &address(0xaaaa_0000_0000_0001));
    guest.put(other, &address(0xbbbb_0000_0000_0002));
    guest.put(out, &[own]);
    let named = guest.call(ProbePurpose::UcxAddress, &[0, out]);
    assert_eq!(named, [[Some(0xaaaa_0000_0000_0001)]]);
    guest.put(parameters, &[HAS_ADDRESS, other]);
    guest.put(out, &[0x1234]);
    assert!(
        guest
            .call(ProbePurpose::UcxEndpoint, &[0, parameters, out])
            .is_empty()
    );

    let tag = 5 << 48 | 1 << 32 | 77;
    guest.put(parameters, &[2, 0, 0, 0]);
    let sent = guest.call(ProbePurpose::UcxSend, &[0x1234, 0, 800, tag, parameters]);
    let known = [Some(0xaaaa_0000_0000_0001), Some(0xbbbb_0000_0000_0002)];
    assert_eq!(sent, [[known[0], known[1], Some(5), Some(77), Some(800)]]);
    // Ten elements of MPICH's datatype of 24 bytes.
    let (generic, datatype) = (HEAP + 0x400, HEAP + 0x500);
    guest.put(parameters, &[HAS_DATATYPE, 0, 0, generic | GENERIC]);
    guest.put(generic, &[datatype]);
    guest.put(datatype, &[0, 24]);
    let sent = guest.call(ProbePurpose::UcxSend, &[0x1234, 0, 10, tag, parameters]);
    assert_eq!(sent[0][4], Some(240));
    // An unknown endpoint leads nowhere, and bad addresses are harmless.
    let sent = guest.call(ProbePurpose::UcxSend, &[0x99, 0, 10, tag, 0x10]);
    assert_eq!(sent, [[known[0], None, Some(5), Some(77), None]]);
    assert!(
        guest
            .call(ProbePurpose::UcxEndpoint, &[0, 0x10, out])
            .is_empty()
    );
    assert!(guest.call(ProbePurpose::UcxAddress, &[0, 0x10]).is_empty());
}

#[test]
fn open_mpi_tells_names_by_the_groups_of_communicators() {
    let mut guest = Guest::new();
    let (comm, group, list) = (HEAP, HEAP + 0x200, HEAP + 0x300);
    let (process, datatype, request) = (HEAP + 0x400, HEAP + 0x500, HEAP + 0x600);
    guest.put(comm + CONTEXT, &[9 | 1 << 32]);
    guest.put(comm + 248, &[group, group]);
    guest.put(group + 16, &[2 | 1 << 32]);
    guest.put(group + 32, &[list]);
    // The first is represented by its name: job family 7, job 1, rank 6.
    guest.put(list, &[6 << 32 | 7 << 16 | 1 << 1 | 1, process]);
    guest.put(process + 40, &[0x7_0001 | 5 << 32]);
    guest.put(datatype + 24, &[8]);
    let arguments = |mode: u64, to: u64| [0, 100, datatype, to, 3, mode, comm, request];
    let expected = [
        Some(0x7_0001 << 32 | 5),
        Some(0x7_0001 << 32 | 6),
        Some(9),
        Some(3),
        Some(800),
    ];
    for purpose in [ProbePurpose::OpenMpiSend, ProbePurpose::OpenMpiIsend] {
        assert_eq!(guest.call(purpose, &arguments(0, 0)), [expected]);
    }
    // A buffered send is recorded by the function that it calls.
    assert!(
        guest
            .call(ProbePurpose::OpenMpiSend, &arguments(1, 0))
            .is_empty()
    );
    assert_eq!(
        guest.call(ProbePurpose::OpenMpiIsend, &arguments(1, 0)),
        [expected]
    );

    // Prepared once, and started with one that only receives.
    guest.put(request, &[0x7777, 0x8888]);
    assert!(
        guest
            .call(ProbePurpose::OpenMpiPrepare, &arguments(0, 0))
            .is_empty()
    );
    for _ in 0..2 {
        assert_eq!(
            guest.call(ProbePurpose::OpenMpiStart, &[2, request]),
            [expected]
        );
    }
    assert!(
        guest
            .call(ProbePurpose::OpenMpiStart, &[u64::MAX, u64::MAX - 8])
            .is_empty()
    );

    // Another layout, or invalid data, yields no sides.
    let sides = guest.call(ProbePurpose::OpenMpiIsend, &arguments(0, 2))[0][..3].to_vec();
    assert_eq!(sides, [None; 3]);
    guest.put(group + 16, &[2]);
    let sides = guest.call(ProbePurpose::OpenMpiIsend, &arguments(0, 0))[0][..3].to_vec();
    assert_eq!(sides, [None; 3]);
}

/// Offset in `ompi_communicator_t`.
const CONTEXT: u64 = 224;
