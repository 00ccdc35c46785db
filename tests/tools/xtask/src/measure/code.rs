//! What is counted in files.

use anyhow::Context as _;
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// The counts of some files.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub(super) files: usize,
    pub(super) lines: usize,
    pub(super) longest_file: usize,
    /// Lines of each function that has a body, sorted.
    pub(super) functions: Vec<usize>,
    pub(super) unsafe_blocks: usize,
    /// `match`, wherever it stands.
    pub(super) matches: usize,
    /// Identifiers that are a vendor's name.
    pub(super) vendors: usize,
}

impl Code {
    pub(super) fn of<'t>(files: impl Iterator<Item = (&'t str, &'t str)>) -> anyhow::Result<Self> {
        let mut code = Self::default();
        for (path, text) in files {
            let file = syn::parse_file(text).with_context(|| path.to_owned())?;
            let lines = text.lines().count();
            code.files += 1;
            code.lines += lines;
            code.longest_file = code.longest_file.max(lines);
            code.visit_file(&file);
            code.words(tokens(text)?);
        }
        code.functions.sort_unstable();
        Ok(code)
    }

    /// As long as this share of the functions are at most, in percent.
    pub(super) fn longest(&self, percent: usize) -> usize {
        let last = self.functions.len().saturating_sub(1);
        let at = (self.functions.len() * percent / 100).min(last);
        self.functions.get(at).copied().unwrap_or(0)
    }

    fn function(&mut self, name: &syn::Ident, block: &syn::Block) {
        let from = name.span().start().line;
        let to = block.brace_token.span.close().end().line;
        self.functions.push(to + 1 - from);
    }

    fn words(&mut self, tokens: TokenStream) {
        each_word(tokens, &mut |word| {
            self.matches += usize::from(word == "match");
            self.vendors += usize::from(matches!(word, "Rxe" | "Mlx5"));
        });
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_blocks += usize::from(block.span().start().line > 0);
        visit::visit_expr_unsafe(self, block);
    }
}

/// Whether code, not comments, names the crate of a provider, or `crate::mlx5`.
pub(super) fn names_a_provider(text: &str) -> anyhow::Result<bool> {
    let (mut named, mut before) = (false, [String::new(), String::new()]);
    each_word(tokens(text)?, &mut |word| {
        let is_crate = matches!(word, "uverbs_rxe" | "uverbs_mlx5");
        named |= is_crate || (word == "mlx5" && before[1] == "crate");
        before.rotate_left(1);
        word.clone_into(&mut before[1]);
    });
    Ok(named)
}

fn tokens(text: &str) -> anyhow::Result<TokenStream> {
    text.parse().map_err(|error| anyhow::anyhow!("{error}"))
}

/// Calls `found` with every identifier and keyword, those in macros too.
fn each_word(tokens: TokenStream, found: &mut impl FnMut(&str)) {
    for token in tokens {
        match token {
            TokenTree::Ident(word) => found(&word.to_string()),
            TokenTree::Group(group) => each_word(group.stream(), &mut *found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "use crate::mlx5;
        fn f() -> u8 {
            match x { Any::Rxe(_) => 1, Any::Mlx5(_) => 2 }
        }
        trait T { fn g(&self) { unsafe { h() } } fn without(&self); }
        macro_rules! m { () => { match y {} } }";

    #[test]
    fn functions_blocks_and_words_are_counted() {
        let code = Code::of([("a.rs", TEXT)].into_iter()).unwrap();
        assert_eq!((code.files, code.lines, code.longest_file), (1, 6, 6));
        assert_eq!(code.functions, [1, 3]);
        assert_eq!((code.longest(100), code.longest(0)), (3, 1));
        assert_eq!((code.unsafe_blocks, code.matches, code.vendors), (1, 2, 2));
    }

    #[test]
    fn names_in_comments_do_not_count() {
        assert!(names_a_provider(TEXT).unwrap());
        assert!(names_a_provider("use uverbs_rxe::X;").unwrap());
        assert!(!names_a_provider("// crate::mlx5\nuse a::mlx5;").unwrap());
    }
}
