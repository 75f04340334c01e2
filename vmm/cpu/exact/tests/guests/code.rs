//! Execution of code: whole, stopped and single-stepped.

mod apart;
mod crossing;
mod engine;
mod hot;
mod kernel_entry;
mod kernels;
mod repeat;
mod seams;
mod strides;
mod system_calls;
