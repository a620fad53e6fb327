//! What the compiler says about each misuse, compared with `ui/RULE.stderr`; `TRYBUILD=overwrite` rewrites those.

/// The release whose words the `.stderr` files hold; they differ from one to the next.
const RELEASE: &str = "1.95.";

#[test]
fn misuse_is_reported_at_its_tokens_with_a_remedy() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = std::process::Command::new(rustc).arg("-vV").output().expect("rustc runs: it compiled this test");
    let version = String::from_utf8_lossy(&version.stdout);
    let release = version.lines().find_map(|line| line.strip_prefix("release: ")).unwrap_or("unknown");
    if !release.starts_with(RELEASE) || release.contains('-') {
        println!("skipped: messages are compared with those of a stable rustc {RELEASE}*, this is {release}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
