//! Runs the sessions of the guide to the command, and compares what is printed; likewise the
//! messages for wrong calls. `TRYCMD=overwrite cargo test -p frond-cli --test cmd` updates both.

#[test]
fn sessions_print_what_is_shown() {
    trycmd::TestCases::new().case("tests/cmd/*.md");
}
