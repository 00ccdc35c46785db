//! Nothing: the crate is there for its dependencies, whose examples and tests are built.
