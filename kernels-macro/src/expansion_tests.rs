//! What `#[kernel]` writes, as text: one whole expansion, and that others parse.

use proc_macro2::TokenStream;

use crate::expand::kernel;

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("the test's text is Rust")
}

fn pretty(options: &str, item: &str) -> String {
    let expanded = kernel(tokens(options), tokens(item));
    prettyplease::unparse(&syn::parse2(expanded).expect("an expansion parses"))
}

/// `BLESS=1` rewrites the file.
#[test]
fn saxpy_expands_to_the_text_on_file() {
    let expanded = pretty(
        "block = (64, 2), contract",
        "/// Adds `a * x` to `y`.\npub fn saxpy(a: f32, x: &[f32], mut y: GridSliceMut<f32>) {}",
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/expansion/saxpy.rs");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &expanded).expect("the file is writable");
    }
    let on_file = std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(expanded, on_file);
}

#[test]
fn expansions_parse_and_leave_the_function_alone() {
    let items = [
        "fn nothing() {}",
        "unsafe fn pointers(x: *const u8, y: *mut [u8; 4]) { unsafe { x.read() }; }",
        "pub(in crate::a) fn generic<'a, 'b: 'a, T: Copy + Of<'a> + 'b, const N: usize>(x: &'a [T; N]) where T: 'b, \
         for<'c> &'c T: Add<&'a T>, 'a: 'b {}",
        "fn patterns((a, _): (f32, f32), [x, .., y]: [u8; 4], S { z, .. }: S, ref mut w: u8) {}",
        "fn r#type(r#fn: u8) {}",
        "fn lifetimes(x: &'_ [T], y: GridSliceMut<'_, T, Runs<4>>, z: PhantomData<fn(&u8) -> &u8>) {}",
        "fn deep(x: [[(u8, Option<a::b::C<{ 3 + N }>>); 2]; 3], y: <T as Iterator>::Item, z: T::Item) {}",
    ];
    for item in items {
        let expanded = kernel(TokenStream::new(), tokens(item)).to_string();
        let inlined = tokens("#[cfg_attr(not(debug_assertions), inline(always))]").to_string();
        let function = expanded.strip_prefix(&inlined).expect("its loops need it inlined");
        assert!(function.trim_start().starts_with(&tokens(item).to_string()), "{expanded}");
        assert!(!expanded.contains("compile_error"), "{expanded}");
        let _ = pretty("", item);
    }
}

/// Who says how a function is inlined has the last word.
#[test]
fn a_function_with_an_inline_attribute_gets_no_other() {
    for attribute in ["#[inline]", "#[inline(never)]", "#[cfg_attr(miri, inline(never))]"] {
        let item = format!("{attribute} fn f(x: &[u8]) {{}}");
        let expanded = kernel(TokenStream::new(), tokens(&item)).to_string();
        assert!(expanded.starts_with(&tokens(&item).to_string()), "{expanded}");
    }
}

#[test]
fn a_function_with_problems_stays_and_has_one_error_for_each() {
    let cases = [
        (1, "", "fn f(x: &mut [u8]) {}"),
        (2, "", "async fn f() -> u8 {}"),
        (3, "a, b = 2, block = 0", "fn f(x: &[u8]) {}"),
        (4, "contract, contract", "fn f(x: String, y: (&u8, u8), z: &dyn Any) {}"),
        (1, "", "struct S;"),
        (1, "", "fn f();"),
        (1, "= 3", "fn f() {}"),
    ];
    for (count, options, item) in cases {
        let expanded = kernel(tokens(options), tokens(item)).to_string();
        assert!(expanded.starts_with(&tokens(item).to_string()), "{expanded}");
        assert_eq!(expanded.matches("compile_error").count(), count, "{expanded}");
    }
}

#[test]
fn lifetimes_of_the_key_are_static_and_others_stay() {
    let expanded =
        pretty("", "fn f<'a>(x: &'a [S<'a, '_>], y: GridSliceMut<W<'a>>, z: P<for<'c> fn(&'c u8, &'a u8, &u8)>) {}");
    for wanted in [
        "&'static [S<'static, 'static>]",
        "GridSliceMut<'static, W<'static>>",
        "P<for<'c> fn(&'c u8, &'static u8, &u8)>",
    ] {
        assert!(expanded.contains(wanted), "{wanted}: {expanded}");
    }
}

#[test]
fn bounds_by_a_lifetime_of_the_function_are_asked_for_all() {
    let item = "fn f<'a, T: for<'b> Of<'a, 'b> + Copy + 'a>(x: &'a [T]) \
                where &'a T: Add<&'a T> + 'a, for<'c> T: ?Sized + Of<'a, 'c>, 'a: 'static {}";
    let expanded = pretty("", item);
    let launch = expanded.split("fn launch<").nth(1).expect("it has a launch");
    assert!(launch.starts_with("T: Copy + 'static>"), "{launch}");
    let (_, predicates) = launch.split_once("where").expect("it has a where clause");
    let (predicates, _) = predicates.split_once('{').expect("it has a body");
    let predicates: Vec<&str> = predicates.trim().trim_end_matches(',').split(",\n").map(str::trim).collect();
    assert_eq!(
        predicates,
        ["for<'b, 'a> T: Of<'a, 'b>", "for<'a> &'a T: Add<&'a T>", "T: ?Sized", "for<'c, 'a> T: Of<'a, 'c>"]
    );
}
