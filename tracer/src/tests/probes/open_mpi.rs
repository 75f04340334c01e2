//! Open MPI's components, and its predefined objects.

use super::{DATA, PROGRAM, Process, WORLD, tracer_of};
use crate::component;
use crate::event::Implementation;
use crate::guest::HEAP;
use crate::targets::Place;

/// A component, mapped somewhere, calls within a call; and so does a callback of the program's.
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
    let nowhere = Place::Slot(0x90_0000);
    let objects = vec![nowhere, Place::Slot(DATA), Place::Missing];
    let mut tracer = tracer_of(Implementation::OpenMpi, objects);
    let mut process = Process::new(0x1000);
    process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    assert_eq!(tracer.counters().warnings.unread_objects, 1);
}
