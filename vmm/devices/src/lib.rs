//! Interrupt controllers, timers, the serial port and virtio-mmio devices.
