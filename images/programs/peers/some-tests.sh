# Builds some of those programs, for MPICH: the ones that every test run runs.
implementations=mpich
only="
attr/attrt coll/allgather2 coll/alltoallw_zeros coll/exscan coll/gatherv coll/icbcast
coll/neighb_alltoallw coll/redscat coll/scattern comm/dup comm/ic1 comm/cmsplit
datatype/blockindexed_misc datatype/typecommit errhan/commcall group/groupcreate pt2pt/anyall
pt2pt/mprobe pt2pt/sendall pt2pt/waitany_null rma/fetchandadd rma/getgroup rma/winname
topo/cartmap1 topo/cartcreates
"
. "$FILES/programs/peers/mpich-tests.sh"
