// version - what this build is, for --version, Hello and bug reports.
#pragma once

#define OR_VERSION "0.1.0"
#define OR_PROTOCOL_VERSION 2u

// Names the arithmetic whose bits a process produces (docs/design.md section 7). Two processes with the
// same id compute the same logits from the same file, bit for bit, whatever their CPU.
#define OR_ARITH_ID "canonical-2"
