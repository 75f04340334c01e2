//! Open MPI's components, and its predefined objects.

use belljar_trace::Implementation;

use super::{DATA, PROGRAM, Process, WORLD, tracer_of};
use crate::interception::component;
use crate::interception::targets::ObjectLocation;
use crate::scripted::{HEAP, STACK};

/// A component, mapped somewhere, makes a call within a call; so does a callback of the program.
#[test]
fn what_a_component_calls_is_the_librarys_affair() {
    let mut tracer = tracer_of(Implementation::OpenMpi, Vec::new());
    let mut process = Process::new(0x1000);
    component::map("mca_io_romio321.so", 0x300, &mut process.memory);
    process.call(&mut tracer, "MPI_File_open", PROGRAM, &[WORLD]);
    process.registers.gpr[4] -= 64;
    let component = component::BASE + 0x200;
    let seen = process.call(&mut tracer, "MPI_Type_size", component, &[0, HEAP]);
    assert_eq!(seen, None);
    process.registers.gpr[4] += 8;
    let callback = PROGRAM + 0x100;
    let seen = process.call(&mut tracer, "MPI_Comm_rank", callback, &[WORLD, HEAP]);
    assert_eq!(seen, Some(callback));
}

#[test]
fn objects_whose_addresses_cannot_be_read_are_counted() {
    let nowhere = ObjectLocation::Slot(0x90_0000);
    let objects = vec![nowhere, ObjectLocation::Slot(DATA), ObjectLocation::Missing];
    let mut tracer = tracer_of(Implementation::OpenMpi, objects);
    let mut process = Process::new(0x1000);
    process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    assert_eq!(tracer.counters().warnings.unread_objects, 1);
}

/// Its binding for `mpif.h` converts handles to C's before it calls, which the program did not request; the program's
/// own conversions are calls like others.
#[test]
fn what_a_binding_for_fortran_turns_into_handles_of_c_is_its_own_affair() {
    let mut tracer = tracer_of(Implementation::OpenMpi, vec![ObjectLocation::Missing]);
    let mut process = Process::new(0x1000);
    component::map("libmpi_mpifh.so.40", 0x300, &mut process.memory);
    let binding = component::BASE + 0x3000;
    for from in [binding, binding + 64, PROGRAM] {
        let watched = process.call(&mut tracer, "MPI_Comm_f2c", from, &[0]);
        assert_eq!(watched, (from == PROGRAM).then_some(PROGRAM), "{from:#x}");
        process.registers.gpr[4] = STACK - 0x100;
    }
    assert!(
        process
            .call(&mut tracer, "MPI_Barrier", binding, &[WORLD])
            .is_some()
    );
}
