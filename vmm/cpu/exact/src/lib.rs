//! The exact engine: a deterministic x86-64 to x86-64 binary translator.
