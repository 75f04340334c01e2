//! One guest node: memory, boot, devices and the run loop.
