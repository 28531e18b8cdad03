# Writes the dashboard's files as C: cmake -DOUTPUT=files.c -DFOLDER=dashboard -DFILES=index.html,app.js,... -P embed.cmake
#
# One array of bytes a file, and the table that dashboard.c looks paths up in. The tag is a hash of what a file says.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

string(REPLACE "," ";" FILES "${FILES}")
set(arrays "")
set(table "")
foreach(name IN LISTS FILES)
  file(READ "${FOLDER}/${name}" hex HEX)
  file(SHA256 "${FOLDER}/${name}" hash)
  string(LENGTH "${hex}" digits)
  math(EXPR count "${digits} / 2")
  string(SUBSTRING "${hash}" 0 16 tag)
  string(MAKE_C_IDENTIFIER "${name}" identifier)
  string(REGEX MATCH "[a-z]+$" ending "${name}")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "^index.html$" "" path "${name}")
  string(APPEND arrays "static const uint8_t ${identifier}[] = {${bytes}};\n")
  string(APPEND table "    {\"/${path}\", \"${type_${ending}}\", \"\\\"${tag}\\\"\", ${identifier}, ${count}},\n")
endforeach()
list(LENGTH FILES file_count)
file(WRITE "${OUTPUT}" "#include \"coordinator/http/dashboard.h\"

extern const or_dashboard_file_t or_dashboard_files[];
extern const size_t or_dashboard_file_count;

${arrays}
const or_dashboard_file_t or_dashboard_files[] = {
${table}};
const size_t or_dashboard_file_count = ${file_count};
")
