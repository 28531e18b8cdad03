#!/usr/bin/env python3
"""Write the manual pages and the shells' completions from what the programs say of themselves (--help-json).

    manual.py FOLDER PROGRAM ...

FOLDER/man has a page for each program and each of its commands, FOLDER/bash a completion for each program, FOLDER/zsh one for all of them."""
import json
import re
import subprocess
import sys
from pathlib import Path

FILE_WORDS, FOLDER_WORDS = ("FILE", "PATH"), ("DIR",)  # values that the shells complete as names of files and folders


def describe(program, words=()):
    """Return the pages of a program and of its commands, in their own words."""
    told = subprocess.run([program, *words, "--help-json"], stdout=subprocess.PIPE, check=True).stdout
    page = json.loads(told)
    found = [page]
    for command in page["commands"]:
        found += describe(program, (*words, command))
    return found


def options_of(page):
    return [option for option in page["options"] if "name" in option]


def spellings(option):
    return ([f"-{option['short']}"] if option["short"] else []) + [f"--{option['name']}"]


def choices(option):
    """Return the values of an option that has few: names, or as in 0|1."""
    if option["choices"]:
        return option["choices"].split(", ")
    return option["arg"].split("|") if option["arg"] and "|" in option["arg"] else []


# ---- manual pages ----

def roff(text):
    """Return text that means nothing to roff, and whose minus signs and quotes are those that a terminal takes back."""
    escapes = {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti"}
    text = "".join(escapes.get(letter, letter) for letter in text)
    return re.sub(r"(?m)^\.", r"\\&.", text)


def roff_option(option):
    value = rf" \fI{roff(option['arg'])}\fR" if option["arg"] else ""
    names = ", ".join(rf"\fB{roff(name)}\fR" for name in spellings(option))
    return f".TP\n{names}{value}\n{roff(option['help'] + option['note'])}\n"


def roff_options(page):
    rows = [roff_option(row) if "name" in row else f".SS {roff(row['heading'])}\n" for row in page["options"]]
    return ".SH OPTIONS\n" + "".join(rows)


def roff_commands(page, pages):
    """Return the commands of a page, with their own summaries."""
    rows = ".SH COMMANDS\n"
    for command in page["commands"]:
        name = f"{page['program']} {command}"
        rows += f".TP\n.B {roff(name)}\n{roff(pages[name]['summary'])}\n"
    return rows


def page_name(program):
    return program.replace(" ", "-")


def see_also(page, pages):
    """Return the page above, those below, and the other programs."""
    programs = [name for name in pages if " " not in name]
    below = [f"{page['program']} {command}" for command in page["commands"]]
    above = [page["program"].rsplit(" ", 1)[0]]
    names = sorted({*programs, *below, *above} - {page["program"]})
    return ".SH SEE ALSO\n" + " ,\n".join(f".BR {roff(page_name(name))} (1)" for name in names) + "\n"


def manual(page, pages):
    title = page_name(page["program"])
    text = f'.TH {roff(title.upper())} 1 "" "Outrider {page["version"]}" "Outrider"\n'
    text += f".SH NAME\n{roff(title)} \\- {roff(page['summary'])}\n"
    text += f".SH SYNOPSIS\n.B {roff(page['program'])}\n{roff(' '.join((page['usage'] or '[options]').split()))}\n"
    if page["commands"]:
        text += roff_commands(page, pages)
    if page["options"]:
        text += roff_options(page)
        text += ".SH ENVIRONMENT\n" + roff(
            "Every option is also a variable (OUTRIDER_TEMP for --temp) and a key of the --config file. The command line wins over the "
            "environment, and that over the file. Flags can be turned off with --no-NAME.") + "\n"
    if page["examples"]:
        text += f".SH EXAMPLES\n.EX\n{roff(page['examples'])}\n.EE\n"
    return text + see_also(page, pages)


# ---- completions ----

def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def completed(option):
    """Return the words offered for an option: a flag that is on can be turned off."""
    return spellings(option) + ([f"--no-{option['name']}"] if option["flag"] and option["note"] else [])


def bash_answer(option):
    """Return the command that bash runs to complete the value of an option."""
    if option["arg"] in FILE_WORDS:
        return ' compopt -o filenames; COMPREPLY=($(compgen -f -- "$word"))'
    if option["arg"] in FOLDER_WORDS:
        return ' compopt -o filenames; COMPREPLY=($(compgen -d -- "$word"))'
    if choices(option):
        return f" COMPREPLY=($(compgen -W {quoted(' '.join(choices(option)))} -- \"$word\"))"
    return ""


def bash_values(page):
    """Return the cases of the words behind which a value is completed: all options of a program that have the same answer."""
    cases = {}
    for option in options_of(page):
        if option["arg"]:
            cases.setdefault(bash_answer(option), []).extend(quoted(f"{page['program']} {name}") for name in spellings(option))
    return [f"  {'|'.join(names)}){answer} ;;" for answer, names in cases.items()]


def bash_commands(page):
    """Return the case that walks from a program to its command."""
    known = "|".join(quoted(f"{page['program']} {command}") for command in page["commands"])
    return [f'    {known}) path+=" ${{COMP_WORDS[i]}}" ;;'] if known else []


def bash_words(page):
    """Return the case that lists a program's commands and options."""
    options = [name for option in options_of(page) for name in completed(option)] or ["--help", "--help-json"]
    return f"    {quoted(page['program'])}) commands={quoted(' '.join(page['commands']))} options={quoted(' '.join(options))} ;;"


BASH = """# bash completion for {program}, made by launch/manual.py
{name}()
{{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} path={program} commands= options= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${{COMP_WORDS[i]}}" in
{walk}
    *) break ;;
    esac
  done
  case "$path $before" in
{values}
  *)
    case "$path" in
{words}
    esac
    if [[ $word == -* ]]; then
      COMPREPLY=($(compgen -W "$options" -- "$word"))
    elif [[ $commands ]] && ((i == COMP_CWORD)); then
      COMPREPLY=($(compgen -W "$commands" -- "$word"))
    else
      compopt -o filenames
      COMPREPLY=($(compgen -f -- "$word"))
    fi
    ;;
  esac
}}
complete -F {name} {program}
"""


def bash(program, pages):
    return BASH.format(program=program, name="_" + program.replace("-", "_"),
                       walk="\n".join(line for page in pages for line in bash_commands(page)),
                       values="\n".join(line for page in pages for line in bash_values(page)),
                       words="\n".join(bash_words(page) for page in pages))


def zsh_action(option):
    if option["arg"] in FILE_WORDS:
        return ":_files"
    if option["arg"] in FOLDER_WORDS:
        return ":_files -/"
    return ":(" + " ".join(choices(option)) + ")" if choices(option) else ":"


def zsh_option(option):
    """Return its names as arguments of _arguments, one each."""
    help_text = re.sub(r"([\[\]:\\])", r"\\\1", option["help"])
    value = ":" + option["arg"].replace(":", r"\:") + zsh_action(option) if option["arg"] else ""
    for name in completed(option):
        yield quoted(f"*{name}[{help_text}]{value}")


def zsh_page(page, pages):
    """Return the lines of one program's or command's case."""
    specs = [spec for option in options_of(page) for spec in zsh_option(option)]
    if not page["commands"]:
        return [f"  _arguments \\\n    " + " \\\n    ".join(specs) + " \\\n    '*:file:_files'"]
    rows = [quoted(f"{command}:{pages[page['program'] + ' ' + command]['summary']}") for command in page["commands"]]
    return ["  local -a commands=(\n    " + "\n    ".join(rows) + "\n  )",
            "  _arguments -C \\\n    " + " \\\n    ".join([*specs, "'1:command:->command'", "'*::word:->words'"]),
            "  case $state in",
            "  command) _describe command commands ;;",
            f"  words) _call_function - {zsh_name(page['program'])}_$words[1] ;;",
            "  esac"]


def zsh_name(program):
    return "_" + re.sub(r"[- ]", "_", program)


def zsh(pages):
    programs = [name for name in pages if " " not in name]
    lines = ["#compdef " + " ".join(programs), "# zsh completion, made by launch/manual.py", ""]
    for page in pages.values():
        lines += [f"{zsh_name(page['program'])}() {{", "  local curcontext=$curcontext state line", *zsh_page(page, pages), "}", ""]
    return "\n".join([*lines, '"_${service//-/_}" "$@"', ""])


# ---- the whole ----

def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.split("\n\n")[1].strip())
    folder, programs = Path(sys.argv[1]), sys.argv[2:]
    told = {Path(program).name: describe(program) for program in programs}
    pages = {page["program"]: page for found in told.values() for page in found}
    for part in ("man", "bash", "zsh"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for page in pages.values():
        (folder / f"man/{page_name(page['program'])}.1").write_text(manual(page, pages))
    for program, found in told.items():
        (folder / f"bash/{program}").write_text(bash(program, found))
    (folder / "zsh/_outrider").write_text(zsh(pages))


if __name__ == "__main__":
    main()
