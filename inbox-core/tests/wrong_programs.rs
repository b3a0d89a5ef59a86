//! Programs that would break a guarantee do not compile, and the compiler says why.
//!
//! Each program in `wrong/` has the compiler's words beside it. They change with the compiler: after an
//! update, look at the differences and record them with `TRYBUILD=overwrite cargo test -p inbox-core
//! --test wrong_programs`.

#[test]
fn wrong_programs_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/wrong/*.rs");
}
