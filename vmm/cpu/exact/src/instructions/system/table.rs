//! The function of every helper of the translator.
//!
//! `helper_of` alone decides which instructions have a helper; this table has the helpers'
//! functions.

use belljar_translate::guest::analyse::helper::Helper;
use iced_x86::Instruction;

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// A function that executes an instruction.
pub(crate) type Handler = fn(&mut ExactVcpu, &Instruction) -> Result<Done, Stop>;

/// The function of each helper.
pub(crate) fn handler(helper: Helper) -> Handler {
    match helper {
        Helper::String => ExactVcpu::string,
        Helper::FlagControl => ExactVcpu::flag_control,
        Helper::Cpuid => ExactVcpu::cpuid,
        Helper::Rdtsc => ExactVcpu::rdtsc,
        Helper::Rdrand => ExactVcpu::rdrand,
        Helper::Msr => ExactVcpu::msr,
        Helper::Port => ExactVcpu::port,
        Helper::ControlTransfer => ExactVcpu::control_transfer,
        Helper::SegmentInstruction => ExactVcpu::segment_instruction,
        Helper::ControlInstruction => ExactVcpu::control_instruction,
        Helper::FpuInstruction => ExactVcpu::fpu_instruction,
        Helper::XsaveInstruction => ExactVcpu::xsave_instruction,
        Helper::Xrstor => ExactVcpu::xrstor,
        Helper::Xgetbv => ExactVcpu::xgetbv,
        Helper::Xsetbv => ExactVcpu::xsetbv,
        Helper::LoadMxcsr => ExactVcpu::load_mxcsr,
        Helper::Odd => ExactVcpu::odd,
        Helper::Adjust => ExactVcpu::adjust,
        Helper::PushPopAll => ExactVcpu::push_pop_all,
        Helper::CheckRange => ExactVcpu::check_range,
        Helper::Arpl => ExactVcpu::arpl,
        Helper::NearTransfer => ExactVcpu::near_transfer,
        Helper::Transcendental => ExactVcpu::transcendental,
        Helper::ApproximateClosely => ExactVcpu::approximate_closely,
        Helper::NoCounter => ExactVcpu::no_counter,
        Helper::Undefined => ExactVcpu::undefined,
        Helper::MoveGeneral => ExactVcpu::move_general,
        Helper::Leave => ExactVcpu::leave,
        Helper::LoadAddress => ExactVcpu::load_address,
        Helper::BitString => ExactVcpu::bit_string,
        Helper::DoubleShift => ExactVcpu::double_shift,
        Helper::Scatter => ExactVcpu::scatter,
        Helper::Gather => ExactVcpu::gather,
    }
}

impl ExactVcpu {
    /// Raises #UD: intentional, or not available.
    fn undefined(&mut self, _: &Instruction) -> Result<Done, Stop> {
        Err(Fault::invalid_opcode().into())
    }

    /// RDPMC: there are no counters, so all numbers are invalid.
    fn no_counter(&mut self, _: &Instruction) -> Result<Done, Stop> {
        Err(Fault::protection(0).into())
    }

    /// LEA of addresses that translated code does not compute.
    fn load_address(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let address = self.effective_address(instruction);
        self.write_operand(instruction, 0, address)?;
        Ok(Done::Next)
    }
}
