// checkpoint - a folder of a model as Hugging Face publishes it: config.json, *.safetensors, and files of the tokenizer.
//
// The weights are one model.safetensors, or the files that model.safetensors.index.json lists. Nothing outside the folder is
// read. Names of files are plain, and a link must lead into the folder, or into the blobs of Hugging Face's cache that it is
// part of. Pickles (pytorch_model.bin) are refused by name. Immutable after open: any thread.
#pragma once

#include "launch/model/convert/json_fields.h"
#include "launch/model/convert/safetensors.h"

typedef struct or_checkpoint or_checkpoint_t;

// Is there a folder with config.json? OR_ERR_IO; OR_ERR_FORMAT says what to do with a file or a folder that is no checkpoint.
or_status_t or_checkpoint_check(const char *path);
// Open a folder and all its weights (`with_weights`), or its JSON files only. OR_ERR_IO, OR_ERR_NO_MEMORY; OR_ERR_FORMAT and
// OR_ERR_UNSUPPORTED name the file and the fault: a file that is missing, a tensor that two files have or none.
or_status_t or_checkpoint_open(const char *folder, bool with_weights,
                               or_checkpoint_t **checkpoint_p);
void or_checkpoint_close(or_checkpoint_t **checkpoint_p);

const char *or_checkpoint_folder(const or_checkpoint_t *checkpoint);
// The content of config.json, until close.
or_json_t or_checkpoint_config(const or_checkpoint_t *checkpoint);

// Read another file of the folder whose value is an object. The caller decrefs *root_p; it is NULL if there is no such file.
or_status_t or_checkpoint_read(const or_checkpoint_t *checkpoint, const char *name,
                               json_t **root_p);
// Read a file of text; *text_p is malloc'd, or NULL if there is no such file.
or_status_t or_checkpoint_read_text(const or_checkpoint_t *checkpoint, const char *name,
                                    char **text_p);

// Read any file; *bytes_p is malloc'd, or NULL if there is no such file.
or_status_t or_checkpoint_read_bytes(const or_checkpoint_t *checkpoint, const char *name,
                                     void **bytes_p, size_t *size);

// The tensors of all files, in the order of their names.
uint64_t or_checkpoint_count(const or_checkpoint_t *checkpoint);
const or_safetensor_t *or_checkpoint_at(const or_checkpoint_t *checkpoint, uint64_t i);
// The index of a tensor; or_checkpoint_count if there is none of this name.
uint64_t or_checkpoint_find(const or_checkpoint_t *checkpoint, const char *name);
// The name of its file.
const char *or_checkpoint_path_of(const or_checkpoint_t *checkpoint, uint64_t i);
// Give the memory of a tensor that was read back to the system.
void or_checkpoint_release(const or_checkpoint_t *checkpoint, uint64_t i);
