//! Commands for this machine and this user: images, caches, checks, manual pages.
//!
//! They read and write no run directory. Called by `main`.

/// `belljar cache`: entries of the user's cache.
pub(crate) mod cache;
/// `belljar calibrate`: parameters of models, measured on this machine.
pub(crate) mod calibrate;
/// `belljar doctor` and `belljar schema`.
pub(crate) mod doctor;
/// `belljar image`: guest images.
pub(crate) mod image;
/// `belljar completions` and `belljar man`.
pub(crate) mod manual;
