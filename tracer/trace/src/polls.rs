//! Calls by which programs wait in loops.
//!
//! How often they are made depends on how long a program waits, not on what it does. Used where a run reports
//! them, and by analyses that ask what a program does.

/// Functions that programs call again and again until something has happened.
const POLLS: [&str; 10] = [
    "MPI_Improbe",
    "MPI_Iprobe",
    "MPI_Parrived",
    "MPI_Request_get_status",
    "MPI_Test",
    "MPI_Testall",
    "MPI_Testany",
    "MPI_Testsome",
    "MPI_Wtick",
    "MPI_Wtime",
];

/// Whether programs call the function of this name again and again until something has happened.
pub fn is_poll(name: &str) -> bool {
    POLLS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use belljar_abi::FUNCTIONS;

    use super::*;

    #[test]
    fn each_is_a_function_and_found() {
        let is_one = |name: &&str| FUNCTIONS.iter().any(|function| function.name == *name);
        assert!(POLLS.iter().all(is_one));
        assert!(POLLS.iter().all(|name| is_poll(name)));
        assert!(!is_poll("MPI_Probe"));
    }
}
