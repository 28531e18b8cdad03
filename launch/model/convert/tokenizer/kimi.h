// kimi - how Kimi's tokenizer cuts a text, as its tokenization_kimi.py has the pattern, which also a tokenizer.json made of it has.
#pragma once

#define OR_KIMI_LETTERS(letters) "[" letters "&&[^\\p{Han}]]"
#define OR_KIMI_CAPITALS                                                                           \
    "[^\\r\\n\\p{L}\\p{N}]?" OR_KIMI_LETTERS("\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}")
#define OR_KIMI_SMALLS OR_KIMI_LETTERS("\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}")
#define OR_KIMI_SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define OR_KIMI_PATTERN                                                                            \
    "[\\p{Han}]+|" OR_KIMI_CAPITALS "*" OR_KIMI_SMALLS "+" OR_KIMI_SUFFIX "|" OR_KIMI_CAPITALS     \
    "+" OR_KIMI_SMALLS "*" OR_KIMI_SUFFIX                                                          \
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
