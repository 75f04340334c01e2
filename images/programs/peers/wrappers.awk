# Reads the preprocessed mpi.h of an MPI and writes a wrapper for each function that it declares, for
# count.c. The wrapper counts the call, makes it by the function's PMPI_ name, and then its bytes,
# where count.c has a rule for them.
BEGIN { RS = ";" }

{
    gsub(/__attribute__ *\(\([^;]*\)\) *$/, "")
    gsub(/__attribute__ *\(\([a-z_]*( *\([^()]*\))?\)\)/, "")
    gsub(/#[^\n]*\n/, " ")
    gsub(/[ \t\n]+/, " ")
    sub(/^ /, "")
    sub(/^extern /, "")
    # Some declarations have a blank after the name.
    open = index($0, " (")
    if (open > 0 && open + 1 == index($0, "("))
        $0 = substr($0, 1, open - 1) substr($0, open + 1)
}

!/^(int|double|MPI_Aint) MPI_[A-Z][A-Za-z0-9_]*\(.*\) *$/ { next }
/\.\.\./ || /MPI_T_/ || / MPI_[A-Za-z_]*_(f2c|c2f|c2f08|f082c|f082f|f2f08|fromint|toint)\(/ { next }

{
    type = $1
    open = index($0, "(")
    name = substr($0, length(type) + 6, open - length(type) - 6)
    parameters = substr($0, open + 1)
    sub(/\) *$/, "", parameters)
    if (name in written)
        next
    written[name] = 1
    list = ""
    if (parameters != "void") {
        # A function pointer has commas of its own; MPI's are all of named types.
        number = split(parameters, parts, ",")
        for (i = 1; i <= number; i++) {
            part = parts[i]
            gsub(/\[[^]]*\]/, "", part)
            sub(/ +$/, "", part)
            match(part, /[A-Za-z_0-9]+$/)
            list = list (i > 1 ? ", " : "") substr(part, RSTART)
        }
    }
    names = names "    X(" name ") \\\n"
    text = text type " MPI_" name "(" parameters ")\n{\n"
    text = text "    enum function me = F_" name ";\n    enter(me);\n"
    if (name == "Abort")
        text = text "    report();\n"
    text = text "    " type " mpi_result = PMPI_" name "(" list ");\n    leave();\n"
    if (name ~ /^(Init|Init_thread|Session_init)$/)
        text = text "    if (mpi_result == MPI_SUCCESS)\n        mark();\n"
    text = text "    (void)me;\n"
    text = text "#ifdef BYTES_" name "\n    if (mpi_result == MPI_SUCCESS) {\n        BYTES_" name ";\n    }\n#endif\n"
    text = text "    return mpi_result;\n}\n\n"
}

END {
    printf "#define FUNCTIONS \\\n%s\n", names >"functions.h"
    printf "%s", text >"wrappers.h"
}
