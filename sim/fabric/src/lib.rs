//! Frames, links, switches and topologies in virtual time.
