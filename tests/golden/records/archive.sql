BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0003');
CREATE TABLE cascades (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	structure VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "cascades" VALUES(1,'682f69ebe177af0966d305d3c33abbd8ea4ec101f67db8c5c38f43f5e21ed266','2c9f316ef55c8dccc2618c57af5604043f741b870d99beda8a6cf19b13426b7a','5974f1eea86c52108836ff37e4d0c3548144774ff7fbfc914ecafea1805ff117','{"einsums":[{"accumulate":"float32","guards":[],"is_copy":false,"map":["*","%1","%0"],"name":"E0","operands":[{"indices":[{"constant":0,"terms":{"i2":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T0"},{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i2":1}}],"tensor":"T2"}],"output":{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T1"},"populate":null,"reduce":"add","sizes":[["i0",67],["i1",45],["i2",300]]}],"outputs":["T1"],"tensors":{"T0":{"dtype":"float32","ranks":[],"shape":[300,45]},"T1":{"dtype":"float32","ranks":[],"shape":[67,45]},"T2":{"dtype":"float32","ranks":[],"shape":[67,300]}}}');
INSERT INTO "cascades" VALUES(2,'ee2783ed16fd0763e397d13a1e6e0ee926bfbbf977239b3bfaec86de123f2470','4953cdf2b90982a7ab7a034b2964692d246431beb9d8067b14e1b867bb6484bc','5974f1eea86c52108836ff37e4d0c3548144774ff7fbfc914ecafea1805ff117','{"einsums":[{"accumulate":"float32","guards":[],"is_copy":false,"map":["*","%1","%0"],"name":"E0","operands":[{"indices":[{"constant":0,"terms":{"i2":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T0"},{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i2":1}}],"tensor":"T2"}],"output":{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T1"},"populate":null,"reduce":"add","sizes":[["i0",64],["i1",48],["i2",32]]}],"outputs":["T1"],"tensors":{"T0":{"dtype":"float32","ranks":[],"shape":[32,48]},"T1":{"dtype":"float32","ranks":[],"shape":[64,48]},"T2":{"dtype":"float32","ranks":[],"shape":[64,32]}}}');
INSERT INTO "cascades" VALUES(3,'7cbed1e965104b8bad78203250e89910d8f561a7b1aa9b9ad1c8ba73bc6ba336','10a6d4ed56d943c0c15942c41a727984415ec2b9f7b7ea05baf903328b1b8074','5974f1eea86c52108836ff37e4d0c3548144774ff7fbfc914ecafea1805ff117','{"einsums":[{"accumulate":"float32","guards":[],"is_copy":false,"map":["*","%1","%0"],"name":"E0","operands":[{"indices":[{"constant":0,"terms":{"i2":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T0"},{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i2":1}}],"tensor":"T2"}],"output":{"indices":[{"constant":0,"terms":{"i0":1}},{"constant":0,"terms":{"i1":1}}],"tensor":"T1"},"populate":null,"reduce":"add","sizes":[["i0",7],["i1",48],["i2",32]]}],"outputs":["T1"],"tensors":{"T0":{"dtype":"float32","ranks":[],"shape":[32,48]},"T1":{"dtype":"float32","ranks":[],"shape":[7,48]},"T2":{"dtype":"float32","ranks":[],"shape":[7,32]}}}');
CREATE TABLE devices (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	identity VARCHAR(512) NOT NULL, 
	family VARCHAR(255) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "devices" VALUES(1,'c7101ce5761bd78717888903732aa16c9cf6940ea2363fd8c0c44fdec656fff4','Portable Computing Language | pthread-Intel(R) Xeon(R) Processor | 2 units | 3.0-rc2','Portable Computing Language | cpu','{"cache_bytes":272629760,"driver":"3.0-rc2","global_bytes":5506762752,"kind":"cpu","local_bytes":2097152,"name":"pthread-Intel(R) Xeon(R) Processor","ordinal":0,"platform":"Portable Computing Language","units":2,"vendor":"GenuineIntel","version":"OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-icelake-client"}');
INSERT INTO "devices" VALUES(2,'7d26751d9aaea446eefc5663e753187e86f6c46720ead9e55018e72e52a475ae','Portable Computing Language | pthread-test | 2 units | 3.0','Portable Computing Language | cpu','{"cache_bytes":1048576,"driver":"3.0","global_bytes":8589934592,"kind":"cpu","local_bytes":1048576,"name":"pthread-test","ordinal":0,"platform":"Portable Computing Language","units":2,"vendor":"us","version":"OpenCL 3.0 pocl"}');
INSERT INTO "devices" VALUES(3,'6e008c1abe3fec0f9dbef41de345b48ef8c7a6da8e3222d4760dc1da08d16a1b','Portable Computing Language | pthread-test | 3 units | 3.0','Portable Computing Language | cpu','{"cache_bytes":1048576,"driver":"3.0","global_bytes":8589934592,"kind":"cpu","local_bytes":1048576,"name":"pthread-test","ordinal":0,"platform":"Portable Computing Language","units":3,"vendor":"us","version":"OpenCL 3.0 pocl"}');
CREATE TABLE measurements (
	id INTEGER NOT NULL, 
	fact VARCHAR(32) NOT NULL, 
	cascade_id INTEGER NOT NULL, 
	device_id INTEGER NOT NULL, 
	schedule_id INTEGER NOT NULL, 
	provenance_id INTEGER NOT NULL, 
	sizes TEXT NOT NULL, 
	dtypes TEXT NOT NULL, 
	strides TEXT NOT NULL, 
	outcome VARCHAR(32) NOT NULL, 
	stage VARCHAR(32) NOT NULL, 
	message TEXT NOT NULL, 
	cold BOOLEAN NOT NULL, 
	median_ns DOUBLE, 
	samples_ns TEXT NOT NULL, 
	event_ns TEXT NOT NULL, 
	error DOUBLE, 
	tolerance DOUBLE, 
	date VARCHAR(40) NOT NULL, 
	document TEXT NOT NULL, mapping TEXT DEFAULT '' NOT NULL, applicable TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (fact), 
	FOREIGN KEY(cascade_id) REFERENCES cascades (id), 
	FOREIGN KEY(device_id) REFERENCES devices (id), 
	FOREIGN KEY(schedule_id) REFERENCES schedules (id), 
	FOREIGN KEY(provenance_id) REFERENCES provenance (id)
);
INSERT INTO "measurements" VALUES(1,'e3f2f70ae3b94c609abd1f69d224b20b',1,1,1,1,'[67,45,300]','["float32","float32","float32"]','[[],[],[]]','ok','done','',0,5.90748257575757670587e+04,'[35786.09090909091,34022.30303030303,33483.378787878784,64416.34848484849,50417.545454545456,69870.81818181818,76869.0,101380.9393939394,63522.621212121216,120822.48484848485,60044.45454545455,60034.57575757576,60479.454545454544,121281.75757575758,60035.84848484849,121586.78787878787,34394.393939393936,86242.39393939394,120450.83333333334,33758.69696969697,118636.15151515153,121281.74242424243,34834.333333333336,34129.89393939394,80928.3484848485,120906.80303030304,36339.13636363636,84611.39393939395,35485.43939393939,35838.07575757576,33716.92424242424,75832.40909090909,34943.59090909092,87936.8787878788,58115.07575757577,34952.06060606061,85887.60606060606,35089.21212121213,146664.65151515152,35309.333333333336,33954.07575757576,34506.93939393939,34328.50000000001,35071.15151515151,33728.106060606064,94686.81818181818,35235.196969696975,34389.242424242424,33741.19696969697,77678.06060606061]','[29092.303030303032,28989.045454545456,28486.136363636364,28416.71212121212,28990.833333333332,29126.030303030304,28617.5,28562.939393939392,28544.39393939394,28639.045454545456,28546.833333333332,29132.924242424244,28995.81818181818,29285.666666666668,28507.0,29146.742424242424,29273.151515151516,58545.5,28472.878787878788,28749.803030303032,29307.742424242424,28837.28787878788,29350.166666666668,28953.5,30643.18181818182,29119.515151515152,30182.81818181818,29271.484848484848,29211.954545454544,30411.196969696968,28948.348484848484,29312.121212121212,29644.484848484848,29349.939393939392,31009.196969696968,28865.257575757576,29249.378787878788,28744.166666666668,30350.21212121212,29321.348484848484,29015.166666666668,29551.166666666668,28989.515151515152,29902.378787878788,28989.833333333332,30092.136363636364,28896.772727272728,29303.984848484848,28830.090909090908,29668.454545454544]',6.12773212915983552049e-07,1.89023094899070497479e-05,'2026-11-22T06:18:57+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[67,300],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[300,45],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[67,45],"strides":[]}],"label":"","runs_per_sample":66}','mapping:
  nodes:
    - !Storage {tensors: [T0, W0, T1], component: MainMemory}
    - !Temporal {rank_variable: m, tile_shape: 67}
    - !Spatial {rank_variable: m, tile_shape: 64, name: core, component: Core}
    - !Temporal {rank_variable: n0, tile_shape: 256}
    - !Temporal {rank_variable: n1, tile_shape: 16}
    - !Storage {tensors: [W0], component: Scratchpad}
    - !Temporal {rank_variable: m, tile_shape: 4}
    - !Storage {tensors: [T1], component: Register}
    - !Temporal {rank_variable: n0, tile_shape: 1}
    - !Temporal {rank_variable: m, tile_shape: 1}
    - !Temporal {rank_variable: n1, tile_shape: 8}
    - !Spatial {rank_variable: n1, tile_shape: 1, name: lane, component: Lane}
    - !Compute {einsum: Matmul0, component: MAC}
','{ [s0, s1, s2] : s0 >= 67 and s1 >= 16 and s2 >= 256 }');
INSERT INTO "measurements" VALUES(2,'fc452fc256494722abdbb8ab0412cfc3',2,2,2,2,'[64,48,32]','["float32","float32","float32"]','[[],[],[]]','ok','done','',0,2.25000000000000044408e+00,'[3.0,1.5,2.25]','[999.0]',1.0e-07,1.0e-05,'2026-01-02T03:04:05+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[64,32],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[32,48],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[64,48],"strides":[]}],"label":"","runs_per_sample":1}','','{ [s0, s1, s2] : s0 >= 8 and s1 > 0 and s2 > 0 }');
INSERT INTO "measurements" VALUES(3,'d5b8feec29f64c369b67f64b4e59a620',3,2,3,2,'[7,48,32]','["float32","float32","float32"]','[[],[],[]]','ok','done','',1,1.00000000000000011373e+03,'[1000.0]','[999.0]',1.0e-07,1.0e-05,'2026-01-02T03:04:05+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[7,32],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[32,48],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[7,48],"strides":[]}],"label":"Z\u00fcrich \u2028","runs_per_sample":1}','','{ [s0, s1, s2] : s0 >= 2 and s1 > 0 and s2 > 0 }');
INSERT INTO "measurements" VALUES(4,'bda71396dc6849ab834905952aef9441',2,3,2,3,'[64,48,32]','["float32","float32","float32"]','[[],[],[]]','crashed','launch','it failed: ''why'' "and" 
 where',0,NULL,'[]','[]',NULL,NULL,'2026-01-02T03:04:05+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[64,32],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[32,48],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[64,48],"strides":[]}],"label":"","runs_per_sample":1}','','{ [s0 = 64, s1 = 48, s2 = 32] }');
INSERT INTO "measurements" VALUES(5,'690a81e61c694c10aa473d9b2a9a1f64',2,2,4,2,'[64,48,32]','["float32","float32","float32"]','[[],[],[]]','rejected','launch','it failed: ''why'' "and" 
 where',0,NULL,'[]','[]',NULL,NULL,'2026-01-02T03:04:05+00:00','{"arguments":[{"by_value":false,"dtype":"float32","name":"T2","role":"input","shape":[64,32],"strides":[]},{"by_value":false,"dtype":"float32","name":"T0","role":"input","shape":[32,48],"strides":[]},{"by_value":false,"dtype":"float32","name":"T1","role":"output","shape":[64,48],"strides":[]}],"label":"","runs_per_sample":1}','','{ [s0 = 64, s1 = 48, s2 = 32] }');
CREATE TABLE predictions (
	id INTEGER NOT NULL, 
	measurement_id INTEGER NOT NULL, 
	predicted_latency DOUBLE NOT NULL, 
	predicted_energy DOUBLE NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (measurement_id), 
	FOREIGN KEY(measurement_id) REFERENCES measurements (id)
);
INSERT INTO "predictions" VALUES(1,1,2.9835e-05,8.6005998e-05,'{"energy": 8.6005998e-05, "latency": 2.9835e-05, "dynamic_energy": 8.6005998e-05, "total_leak_energy": 0.0, "n_instances": 1, "least_latency": 7.926e-06, "tables": {"actions": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]], ["tensor", [null, "T0", "T1", "W0"]], ["action", ["compute", "read", "write"]]], "rows": [["Matmul0", "MainMemory", "T0", "read", 3859200.0], ["Matmul0", "MainMemory", "T0", "write", 0.0], ["Matmul0", "Scratchpad", "W0", "read", 28944000.0], ["Matmul0", "Scratchpad", "W0", "write", 452250.0], ["Matmul0", "MainMemory", "W0", "read", 432000.0], ["Matmul0", "MainMemory", "W0", "write", 0.0], ["Matmul0", "Register", "T1", "read", 49494240.0], ["Matmul0", "Register", "T1", "write", 49494240.0], ["Matmul0", "MainMemory", "T1", "read", 96480.0], ["Matmul0", "MainMemory", "T1", "write", 192960.0], ["Matmul0", "MAC", null, "compute", 904500.0]]}, "action_energy": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]], ["tensor", [null, "T0", "T1", "W0"]], ["action", ["compute", "read", "write"]]], "rows": [["Matmul0", "MainMemory", "T0", "read", 3.8592e-05], ["Matmul0", "MainMemory", "T0", "write", 0.0], ["Matmul0", "Scratchpad", "W0", "read", 2.8944e-05], ["Matmul0", "Scratchpad", "W0", "write", 4.5225e-07], ["Matmul0", "MainMemory", "W0", "read", 4.32e-06], ["Matmul0", "MainMemory", "W0", "write", 0.0], ["Matmul0", "Register", "T1", "read", 4.949424e-06], ["Matmul0", "Register", "T1", "write", 4.949424e-06], ["Matmul0", "MainMemory", "T1", "read", 9.647999999999999e-07], ["Matmul0", "MainMemory", "T1", "write", 1.9295999999999997e-06], ["Matmul0", "MAC", null, "compute", 9.045e-07]]}, "leak_energy": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]]], "rows": [["Matmul0", "MainMemory", 0.0], ["Matmul0", "Core", 0.0], ["Matmul0", "Scratchpad", 0.0], ["Matmul0", "Register", 0.0], ["Matmul0", "Lane", 0.0], ["Matmul0", "MAC", 0.0]]}, "component_latency": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]]], "rows": [["Matmul0", "MainMemory", 2.9835e-05], ["Matmul0", "Scratchpad", 1.7820000000000002e-05], ["Matmul0", "Register", 0.0], ["Matmul0", "MAC", 1.8e-05]]}, "occupancy": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]], ["tensor", [null, "T0", "T1", "W0"]]], "rows": [["Matmul0", "MainMemory", "T0", 643200.0], ["Matmul0", "MainMemory", "W0", 432000.0], ["Matmul0", "Scratchpad", "W0", 131072.0], ["Matmul0", "MainMemory", "T1", 96480.0], ["Matmul0", "Register", "T1", 2048.0]]}, "peak": {"axes": [["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]]], "rows": [["MainMemory", 1171680.0], ["Scratchpad", 131072.0], ["Register", 2048.0]]}, "computes": {"axes": [["einsum", ["Matmul0"]]], "rows": [["Matmul0", 904500.0]]}, "sizes": {"axes": [["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]]], "rows": [["MainMemory", Infinity], ["Scratchpad", Infinity], ["Register", Infinity]]}, "usage": {"axes": [["einsum", ["Matmul0"]], ["component", ["Core", "Lane", "MAC", "MainMemory", "Register", "Scratchpad"]], ["dimension", ["core", "lane"]]], "rows": [["Matmul0", "Core", "core", 0.5234375], ["Matmul0", "Lane", "lane", 0.5]]}}}');
INSERT INTO "predictions" VALUES(2,2,1.0e-06,1.0,'{"energy": 1.0, "latency": 1e-06, "dynamic_energy": 0.5, "total_leak_energy": 0.5, "n_instances": 1, "least_latency": 0.0, "tables": {"actions": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "action_energy": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "leak_energy": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "component_latency": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "occupancy": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "peak": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "computes": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}, "sizes": {"axes": [["component", ["DRAM"]]], "rows": [["DRAM", Infinity]]}, "usage": {"axes": [["einsum", ["Z"]]], "rows": [["Z", 1.0]]}}}');
CREATE TABLE provenance (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "provenance" VALUES(1,'44da5bc6a7c18a7e82a46f85080bd9e1e25bc0a6697a7f10f5639c210974597c','{"harness":1,"options":["-cl-mad-enable"],"source_hash":"8d2b5ccd0888772e1d631e72622f5cbf4ebb001b53589949c208fba5098193b7","threads":2,"versions":{"feinsum_fuse":"0.1.0","islpy":"2026.1","loopy":"2025.2","numpy":"2.4.6","pyopencl":"2026.1.4"}}');
INSERT INTO "provenance" VALUES(2,'76d426c11f6621f07f85618c8da5b57a44e531852e4117b928446d0572f953ee','{"harness":1,"options":["-cl-mad-enable"],"source_hash":"abababababababababababababababababababababababababababababababab","threads":2,"versions":{"loopy":"2025.2"}}');
INSERT INTO "provenance" VALUES(3,'1b17bb951ff28c822cadc0cf62d5cef0fd2c1693392edf2a1dffd77ef8756e71','{"harness":1,"options":["-cl-mad-enable"],"source_hash":"abababababababababababababababababababababababababababababababab","threads":3,"versions":{"loopy":"2025.2"}}');
CREATE TABLE schedules (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	document TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
);
INSERT INTO "schedules" VALUES(1,'53678f2d8164b593063b12275fa484cdfdcac5411aaecf96e0833122e6270f19','[{"order":["E0"],"step":"Explicate","version":1},{"loop":"E0.i0","step":"Split","tile":67,"version":1},{"loop":"E0.i0/1","step":"Split","tile":64,"version":1},{"loop":"E0.i2","step":"Split","tile":256,"version":1},{"loop":"E0.i1","step":"Split","tile":16,"version":1},{"loop":"E0.i0/1/1","step":"Split","tile":4,"version":1},{"loop":"E0.i1/1","step":"Split","tile":8,"version":1},{"einsum":"E0","order":["E0.i0/0","E0.i0/1/0","E0.i2/0","E0.i1/0","E0.i0/1/1/0","E0.i2/1","E0.i0/1/1/1","E0.i1/1/0","E0.i1/1/1"],"step":"Reorder","version":1},{"axis":"group.0","loop":"E0.i0/1/0","step":"Bind","version":1},{"axis":"group.1","loop":"E0.i0/0","step":"Bind","version":1},{"at":"E0.i1/0","axes":[],"einsums":["E0"],"memory":"local","step":"CacheRead","tensor":"T0","version":1},{"at":"E0.i0/1/1/0","axes":[],"einsum":"E0","memory":"private","step":"CacheWrite","version":1},{"loops":["E0.i1/1/1"],"step":"Vectorize","version":1},{"loop":"E0.i0/1/1/1","step":"Unroll","version":1},{"loop":"E0.i1/1/0","step":"Unroll","version":1}]');
INSERT INTO "schedules" VALUES(2,'e472ebd7afbb7df8d01d757dad44d2717e7182bd5d25b12c9932f3bb4b3a0c07','[{"order":["E0"],"step":"Explicate","version":1},{"loop":"E0.i0","step":"Split","tile":8,"version":1}]');
INSERT INTO "schedules" VALUES(3,'beebfc97de46f2128362022bee71ced94ae3f1e97cf8b5a76387be01050ce73e','[{"order":["E0"],"step":"Explicate","version":1},{"loop":"E0.i0","step":"Split","tile":2,"version":1}]');
INSERT INTO "schedules" VALUES(4,'74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b','null');
CREATE INDEX ix_cascades_key ON cascades ("key");
CREATE INDEX ix_cascades_structure ON cascades (structure);
CREATE INDEX ix_devices_identity ON devices (identity);
CREATE INDEX ix_devices_family ON devices (family);
CREATE INDEX ix_measurements_of ON measurements (cascade_id, device_id, outcome);
COMMIT;
